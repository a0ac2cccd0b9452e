"""Get or register models by name. Listing the names does not import TensorFlow.

    model = models.get("universal_transformer", hp, problem, data_dir)
    model = models.get("universal_transformer", hp, vocab_sizes={"inputs": 32, "targets": 32})

You can register your own model, which is usually a subclass of one of these models:

    @models.register("my_transformer")
    class MyTransformer(UniversalTransformer): ...

Parts of a model, such as another transition, are registered in `ut_keras.parts`.
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ut_keras import registry
from ut_keras.data import features as features_lib
from ut_keras.errors import UserError
from ut_keras.files import file_error
from ut_keras.hparam_schema import BasicHParams
from ut_keras.hparam_schema.field import HParamError
from ut_keras.models import missing_models
from ut_keras.process import tensorflow_log

if TYPE_CHECKING:
    import keras

M = TypeVar("M", bound=type)

# Maps a name to a class, or to "MODULE:CLASS" if the class is not imported yet.
_CLASSES = registry.Registry("model", flag="model", function="models.get")
names = _CLASSES.names
mark_unsupported = _CLASSES.mark_unsupported
unsupported, unsupported_reason = _CLASSES.unsupported, _CLASSES.unsupported_reason
_BUILT_IN = {
    "transformer": "transformer:Transformer",
    "transformer_encoder": "transformer:TransformerEncoder",
    "universal_transformer": "universal_transformer:UniversalTransformer",
    "universal_transformer_encoder": "universal_transformer:UniversalTransformerEncoder",
    "lstm_seq2seq": "lstm_seq2seq:LSTMSeq2seq",
    "lstm_seq2seq_attention": "lstm_seq2seq:LSTMSeq2seqAttention",
    "lstm_seq2seq_bidirectional_encoder": "lstm_seq2seq:LSTMSeq2seqBidirectionalEncoder",
    "lstm_seq2seq_attention_bidirectional_encoder": (
        "lstm_seq2seq:LSTMSeq2seqAttentionBidirectionalEncoder"
    ),
    "neural_gpu": "neural_gpu:NeuralGPU",
    "diagonal_neural_gpu": "neural_gpu:DiagonalNeuralGPU",
}
for _name, _class in _BUILT_IN.items():
    _CLASSES.add(_name, f"ut_keras.models.{_class}")
for _pattern, _reason in missing_models.REASONS.items():
    mark_unsupported(_pattern, _reason)


@overload
def register(name: str | None = None) -> Callable[[M], M]: ...


@overload
def register(name: M) -> M: ...


def register(name: Any = None) -> Any:
    """Return a decorator that registers a class as a model.

    Keras uses the name in `.keras` files. If no name is given, the decorator derives it from the
    name of the class, as in T2T. See `registry.default_name`.

    Raises:
        ValueError: if the name is in use.
    """

    def add(name, model_class):
        import keras  # not at the top, because listing the names must not import Keras

        _CLASSES.add(name, model_class)
        keras.saving.register_keras_serializable("ut_keras.models", name)(model_class)

    return registry.decorator(name, add)


def register_alias(name: str, other: str) -> None:
    """Register the model `other` under a second name."""
    _CLASSES.replace(name, _CLASSES.get(other))


def check_name(name: str) -> None:
    """Raise `UnknownNameError` if there is no model `name`.

    This function does not import TensorFlow.
    """
    _CLASSES.get(name)


def registered_class(name: str) -> Any:
    """Return the class of the model `name`.

    If there is no such model, raise `UnknownNameError`.
    """
    model_class = _CLASSES.get(name)
    if isinstance(model_class, str):
        module_name, class_name = model_class.split(":")
        model_class = getattr(importlib.import_module(module_name), class_name)
    return model_class


_LSTM_ATTENTION_HPARAMS = (
    "attention_mechanism",
    "attention_layer_size",
    "num_heads",
    "output_attention",
    "attention_mask_padding",
)
# {model: hparams that its class of hparams has for other models, and that it does not read}
_UNREAD_HPARAMS = {
    **dict.fromkeys(
        ("lstm_seq2seq", "lstm_seq2seq_bidirectional_encoder"), _LSTM_ATTENTION_HPARAMS
    ),
    "neural_gpu": ("diagonal_final_state", "diagonal_shift_axis"),
    "transformer_encoder": ("num_decoder_layers",),
}
# Models with a decoder for which there is also a model NAME_encoder without a decoder.
_WITH_ENCODER_VARIANT = ("transformer", "universal_transformer")
# Models that accept the hparams of a Universal Transformer, and do not read the recurrence.
_WITHOUT_RECURRENCE = ("transformer", "transformer_encoder")


def unread_notes(name: str, hparams: BasicHParams, before: BasicHParams) -> list[str]:
    """Return a note for each changed hparam that the model `name` does not read.

    One note says that a Transformer does not read the recurrence of a Universal Transformer.

    Args:
        name: str, the name of a model.
        hparams: the hparams of the model.
        before: hparams with the values before the change.
    """
    values, earlier = vars(hparams), vars(before)
    notes = [
        f"{field}={values[field]!r} has no effect: {name} does not read it."
        for field in _UNREAD_HPARAMS.get(name, ())
        if field in values and values[field] != earlier.get(field, values[field])
    ]
    if name in _WITHOUT_RECURRENCE and "recurrence_type" in values:
        notes.append(
            f"recurrence_type={values['recurrence_type']!r} and the other hparams of the "
            f"recurrence have no effect: {name} does not repeat a layer. For a Universal "
            f"Transformer, use --model=universal_{name}."
        )
    return notes


def get(
    name: str,
    hparams: BasicHParams,
    problem: Any = None,
    data_dir: str | None = None,
    vocab_sizes: Mapping[str, int] | None = None,
) -> "keras.Model":
    """Build a model.

        hp = hparams.get("transformer_tiny")
        model = models.get("transformer", hp, vocab_sizes={"inputs": 32, "targets": 32})

    Args:
        name: str, one of `names()`.
        hparams: hparams of the model's class, such as `hparams.get("transformer_base")`.
        problem: a `Problem`, which defines the features. Give either `problem` or `vocab_sizes`.
        data_dir: str, the folder with the vocabulary of `problem`.
        vocab_sizes: dict from the name of a symbol feature to its vocabulary size. A language model
            has no "inputs".

    Raises:
        UnknownNameError: if there is no such model.
        HParamError: if the hparams do not fit the model or use a field that is not supported.
        ValueError: unless exactly one of `problem` and `vocab_sizes` is given.
    """
    check_name(name)
    if (problem is None) == (vocab_sizes is None):
        raise ValueError(
            "Either problem (with data_dir) or vocab_sizes must be given. "
            f"Received: problem={problem}, vocab_sizes={vocab_sizes}."
        )
    tensorflow_log.load()
    if problem is None:
        return from_specs(name, hparams, _specs_of_sizes(vocab_sizes))
    if isinstance(problem, str | type) or not hasattr(problem, "feature_specs"):
        found = problem if isinstance(problem, str) else "…"
        raise UserError(
            f'problem must be a Problem, from problems.get("{found}") of ut_keras. '
            f"Received: {problem!r}."
        )
    if hasattr(problem, "with_hparams"):  # `problem` may be another object with features
        problem = problem.with_hparams(hparams)
    specs = problem.feature_specs(file_error.optional_path(data_dir, "data_dir"))
    if name in _WITH_ENCODER_VARIANT and specs["targets"].modality == "class_label":
        logging.getLogger("ut_keras").warning(
            "The targets are classes, and %s predicts the class with a decoder of one position, as "
            "in T2T. To train a model without a decoder, use %s_encoder.",
            name,
            name,
        )
    return from_specs(name, hparams, specs, problem.target_space_id)


def _specs_of_sizes(vocab_sizes):
    """Return the specs of symbol features, a dict from feature name to `FeatureSpec`."""
    if not isinstance(vocab_sizes, Mapping):
        raise UserError(
            'vocab_sizes must be a dict, such as {"inputs": 32, "targets": 32}. '
            f"Received: {vocab_sizes!r}."
        )
    return {name: features_lib.FeatureSpec(vocab_size=size) for name, size in vocab_sizes.items()}


def from_specs(
    name: str,
    hparams: BasicHParams,
    specs: Mapping[str, features_lib.FeatureSpec],
    target_space_id: int = 0,
) -> "keras.Model":
    """Build a model from the specs of its features.

    Args:
        name, hparams: as for `get`.
        specs: dict from feature name to `FeatureSpec`.
        target_space_id: int. T2T's id of the kind of target.

    Raises:
        UnknownNameError, HParamError: as `get`.
        DataError: if a spec is invalid.
    """
    if not isinstance(hparams, BasicHParams):
        raise HParamError(
            'hparams must come from hparams.get("transformer_base", "hidden_size=64") or from '
            f"ut_keras.hparam_schema.from_dict. Received: a {type(hparams).__name__}."
        )
    features_lib.check(specs)
    model_class = registered_class(name)
    try:
        return model_class.from_hparams(hparams, specs, target_space_id, name=name)
    except UserError:
        raise
    except ValueError as error:  # a layer raised the error, so its message does not name hparams
        raise HParamError(f"The hparams must fit {name}. Received: {error}") from error
