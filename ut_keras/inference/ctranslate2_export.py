"""Exports a `transformer` to CTranslate2, which runs it in C++ without TensorFlow.

    export.export_ctranslate2(model, encoders, "served", quantize="int8")
    translator = ctranslate2.Translator("served")
    translator.translate_batch([["17", "4", "1"]], **ctranslate2_export.OPTIONS)

CTranslate2 reads and writes each id, EOS included, as a word such as "17". By default, CTranslate2
truncates long texts, and its scores differ from the scores of the model. With `OPTIONS`, the scores
are equal (docs/serving.md).

CTranslate2 supports the layers of Vaswani et al. 2017 with the norm before each sublayer. It does
not support the Universal Transformer, which adds the position and step signals at every step.
"""

import logging
import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from ut_keras.checkpoints import checkpoint
from ut_keras.files import file_error, whole_file
from ut_keras.inference import export_arguments, feature_record, float32_only, text_model
from ut_keras.ops import converted_outputs, finite
from ut_keras.process import extras
from ut_keras.text.text_encoder_base import EOS, PAD, TextEncoder

_LOG = logging.getLogger("ut_keras")
# Maximum difference between the log probabilities of CTranslate2 and of the model.
_TOLERANCES = {"": 1e-3, "float16": 1e-2, "int8": 0.1}
QUANTIZATIONS = tuple(_TOLERANCES)
_POSITIONS = 2048  # size of the table of position signals; a text cannot be longer
# Options of `translate_batch` with which CTranslate2 computes the scores of ut_keras for alpha=0.
OPTIONS = {"max_input_length": 0, "min_decoding_length": 0, "length_penalty": 0}
# Printed after an export.
ADVICE = (
    f"Call translate_batch with {', '.join(f'{name}={value}' for name, value in OPTIONS.items())} "
    "and max_decoding_length=<source length + extra_length>. Call score_batch with "
    "max_input_length=0. "
    "By default CTranslate2 cuts sources and targets at 1,024 tokens, scores a cut target as if "
    "it ended there, stops writing at 256 tokens, and forbids an empty output. For an empty "
    "source, translate_batch returns an empty output without running the model. "
    f"The export holds {_POSITIONS:,} positions."
)


def export_ctranslate2(
    model: keras.Model,
    encoders: Mapping[str, TextEncoder],
    directory: str = "",
    quantize: str = "",
) -> None:
    """Write a CTranslate2 model to a folder, with features.json and vocabularies.

    If the export fails, no folder is left.

    Args:
        model: a `Transformer` with symbol inputs and symbol targets.
        encoders: dict from feature name to `TextEncoder`.
        directory: str, a folder that must not exist. Required. The default "" exists only for the
            wrong call `export_ctranslate2(run, directory)`. Its error shows the correct call.
        quantize: "", "float16" or "int8". The format of the stored weights. CTranslate2 chooses the
            format of the computation. A warning is logged if the scores on this CPU are wrong.

    Raises:
        ValueError: if CTranslate2 is not installed or does not support the model, or if its log
            probabilities differ from those of the model.
        FileExistsError: if the folder exists.
    """
    export_arguments.check(
        model, "export_ctranslate2(run.model, run.encoders, directory)", encoders
    )
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {QUANTIZATIONS}. Received: {quantize!r}.")
    directory = file_error.checked_path(directory, "directory")
    if os.path.exists(directory):
        raise FileExistsError(17, "The folder of an export must not exist", directory)
    try:
        import ctranslate2
        from ctranslate2.specs import transformer_spec
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 must be installed. Received: {error}. "
            f"{extras.install_hint('ctranslate2')}"
        ) from error
    _check_layers(model)
    float32_only.check(model, "CTranslate2")
    text_model.check_encoders(model, encoders)
    finite.check_model(model)
    record = feature_record.FeatureRecord(model.specs, dict(encoders), model.target_space_id)
    with whole_file.writing_folder(directory) as folder:
        # 32-bit weights are checked first, because their tolerance is the strictest.
        for bits in dict.fromkeys(("", quantize)):
            spec = _spec(transformer_spec, model)
            spec.validate()
            spec.optimize(quantization=bits or None)
            spec.save(folder)
            # This check computes in float32, so it tests only the stored weights. The check below
            # tests the computation on this CPU, which may use 8 bits.
            translator = ctranslate2.Translator(folder, compute_type="float32")
            if why := _score_difference(translator, model, _TOLERANCES[bits]):
                raise ValueError(
                    "CTranslate2 must compute the log probabilities of the model; it does not "
                    f"support some of the model's hparams. Received: {why}."
                )
        if why := _score_difference(ctranslate2.Translator(folder), model, _TOLERANCES[quantize]):
            _LOG.warning(
                "On this CPU, CTranslate2 computes wrong scores in 8 bits: %s. Set CT2_USE_MKL=1.",
                why,
            )
        feature_record.save(folder, record)


def _check_layers(model):
    """Raise `ValueError` if CTranslate2 does not support the layers of a model."""
    mode = getattr(model.hparams, "prepend_mode", "none")
    keys = getattr(model.hparams, "hard_attention_k", 0)
    attention = getattr(model.hparams, "self_attention_type", "dot_product")
    is_plain = model.name == "transformer" and mode == "none" and not keys
    # Local attention equals full attention for short texts, so `_score_difference` misses it.
    is_plain = is_plain and not attention.startswith("local")
    kinds = [f"{name} ({spec.modality})" for name, spec in sorted(model.specs.items())]
    if not is_plain or kinds != ["inputs (symbol)", "targets (symbol)"]:
        raise ValueError(
            "model must be a transformer from symbol inputs to symbol targets. CTranslate2 has no "
            "layer for a Universal Transformer, which adds its signals at every step. "
            f"Received: a {model.name} with {', '.join(kinds)}, prepend_mode={mode}, "
            f"hard_attention_k={keys}, self_attention_type={attention}."
        )
    size = model.hparams.hidden_size
    for name in ("attention_key_channels", "attention_value_channels"):
        if (channels := getattr(model.hparams, name)) not in (0, size):
            raise ValueError(
                f"{name} must be 0 or hidden_size, because CTranslate2 supports no other size. "
                f"Received: {name}={channels}, hidden_size={size}."
            )


def _spec(transformer_spec, model):
    """Return the specification of the model for CTranslate2."""
    weights = {name: v.numpy() for name, v in checkpoint.model_variables(model).items()}
    weights = {name: value for name, value in weights.items() if value.dtype.kind == "f"}
    depths = [
        len({name.split("/")[3] for name in weights if name.startswith(f"{side}/depth/block")})
        for side in ("encoder", "decoder")
    ]
    spec = transformer_spec.TransformerSpec.from_config(tuple(depths), model.hparams.num_heads)
    for side, number in zip(("encoder", "decoder"), depths, strict=True):
        side_spec = getattr(spec, side)
        side_spec.scale_embeddings = False  # the weights of the table already contain the scale
        for i in range(number):
            _set_layer(side_spec.layer[i], weights, f"{side}/depth/block/layer_{i}")
        _set_norm(side_spec.layer_norm, weights, side)
        embeddings, side_spec.position_encodings.encodings = _embedding_tables(model, side)
        (side_spec.embeddings[0] if side == "encoder" else side_spec.embeddings).weight = embeddings
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = model.softmax.embedding.numpy()
    used = ("target_space_embedding", "source_embedding", "target_embedding", "softmax")
    unused = [name for name in weights if not name.startswith(used)]
    if unused:
        raise ValueError(f"CTranslate2 has no layer for the weights {unused[0]}.")
    symbols = {name: list(map(str, range(of.vocab_size))) for name, of in model.specs.items()}
    spec.register_source_vocabulary(symbols["inputs"])
    spec.register_target_vocabulary(symbols["targets"])
    spec.config.layer_norm_epsilon = model.hparams.norm_epsilon
    spec.config.eos_token, spec.config.unk_token = str(EOS), str(PAD)
    spec.config.bos_token = spec.config.decoder_start_token = str(EOS)
    return spec


def _set_layer(layer, weights, path):
    _set_attention(layer.self_attention, weights, f"{path}/self_attention", [3])
    if hasattr(layer, "attention"):
        _set_attention(layer.attention, weights, f"{path}/encdec_attention", [1, 2])
    _set_norm(layer.ffn.layer_norm, weights, f"{path}/ffn")
    for i, linear in enumerate((layer.ffn.linear_0, layer.ffn.linear_1), 1):
        linear.weight = _pop_weight(weights, f"{path}/ffn/dense_relu_dense/conv{i}/kernel").T
        linear.bias = _pop_weight(weights, f"{path}/ffn/dense_relu_dense/conv{i}/bias")


def _set_attention(attention, weights, path, together):
    """Set the weights of an attention layer.

    Args:
        together: list of int. The number of matrices in each product. [3] means that CTranslate2
            computes q, k and v as one product. [1, 2] means that it computes q alone, and k with v.
    """
    _set_norm(attention.layer_norm, weights, path)
    inner = f"{path}/multihead_attention"
    parts = [_pop_weight(weights, f"{inner}/{name}/kernel").T for name in "qkv"]
    for linear, number in zip(attention.linear, together, strict=False):
        linear.weight = np.concatenate(parts[:number])
        del parts[:number]
    attention.linear[-1].weight = _pop_weight(weights, f"{inner}/output_transform/kernel").T


def _set_norm(norm, weights, path):
    inner = f"{path}/layer_prepostprocess/layer_norm/layer_norm"
    norm.gamma, norm.beta = (_pop_weight(weights, f"{inner}_{name}") for name in ("scale", "bias"))


def _pop_weight(weights, name):
    if name not in weights:
        raise ValueError(f"CTranslate2's layers require the weights {name}. Received: none.")
    return np.ascontiguousarray(weights.pop(name))


def _embedding_tables(model, side):
    """Return the embeddings [V, D] and the position signals [P, D] of a stack's input."""
    is_source = side == "encoder"
    table = model.source_embedding if is_source else model.target_embedding
    position = model.source_position if is_source else model.target_position
    blank = tf.zeros([1, _POSITIONS], tf.int32)
    x = model._embed(table, blank)
    if is_source and model.target_space is not None:
        x = model.target_space(x)
    if position is not None:
        x = position(x, tf.range(_POSITIONS))
    return model._embed(table, tf.range(table.vocab_size)[tf.newaxis])[0].numpy(), x[0].numpy()


def _score_difference(translator, model, tolerance):
    """Return how CTranslate2's log probabilities differ from the model's, or None."""
    generator = np.random.default_rng(seed=0)
    rows = {
        name: converted_outputs.random_ids(generator, [4, 12], spec.vocab_size)
        for name, spec in sorted(model.specs.items())
    }
    sources, targets = ([[str(i) for i in row if i != PAD] for row in ids] for ids in rows.values())
    targets = [row[:-1] for row in targets]  # CTranslate2 adds EOS
    scored = translator.score_batch(sources, targets, max_input_length=0)
    found = [sum(score.log_probs) for score in scored]
    with converted_outputs.without_tensor_float_32():
        expected = model.score(rows).numpy()
    if np.allclose(found, expected, rtol=tolerance, atol=tolerance):
        return None
    return f"{found[0]:.3f} instead of {expected[0]:.3f}"
