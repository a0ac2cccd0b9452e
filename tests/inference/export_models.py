"""Small models of every kind that can be exported, and their expected outputs."""

import functools
import zlib

import numpy as np

from tests import seeds
from tests.decoding import cache_test
from tests.text import subword_text_encoder_test as golden
from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.text import text_encoder

BYTES = text_encoder.ByteTextEncoder()
WORDS = text_encoder.TokenTextEncoder(tokens=["where", "is", "Mary", "?", "in", "the", "garden"])
NUMBERS = text_encoder.IntegerTextEncoder(12)
LABELS = text_encoder.ClassLabelEncoder(labels=["good", "bad", "neither"])

# Each name is a variant whose recurrent step has one optional part.
BLOCKS = ("injection", "rotary", "relative_xl", "data_router", "randomized_position")
# `MODELS` maps a name to (variant, kind of features). `variant_model` makes the variants, and
# `features` makes the features.
MODELS = {
    "adaptive": ("act", "subwords"),
    "prompts": ("act_copy", "subwords_only"),
    "bytes": ("transformer", "bytes"),
    "classes": ("one_layer", "classes"),
    "encoder_classes": ("encoder", "classes"),
    "encoder_symbols": ("encoder", "numbers"),
    "story": ("encoder", "story"),
    "lstm": ("lstm_attention", "words"),
    "neural_gpu": ("neural_gpu", "numbers"),
    **{name: (name, "numbers") for name in BLOCKS},
}
SEARCH = {"beam_size": 3, "alpha": 0.6, "decode_length": 6}
TEXTS = ["where is Mary ?", "", "so_ cool \\ 1 2 3", "9 0 7", "\U0001f600 \u05d0\u05d1 \x07", "a"]


@functools.cache
def features(kind):
    """Return (encoders, specs) for a kind of features."""
    subwords = golden.load(golden.VOCABS[0])
    encoders = {
        "subwords": {"inputs": subwords, "targets": subwords},
        "subwords_only": {"targets": subwords},
        "bytes": {"inputs": BYTES, "targets": BYTES},
        "numbers": {"inputs": NUMBERS, "targets": NUMBERS},
        "words": {"inputs": WORDS, "targets": WORDS},
        "classes": {"inputs": BYTES, "targets": LABELS},
        "story": {"inputs": WORDS, "targets": WORDS},
    }[kind]
    specs = {name: FeatureSpec(encoder.vocab_size) for name, encoder in encoders.items()}
    if kind in ("classes", "story"):
        specs["targets"] = specs["targets"]._replace(modality="class_label")
    if kind == "story":
        specs["inputs"] = specs["inputs"]._replace(modality="sentences", shape=(4, 5))
    return encoders, specs


def bfloat16_model():
    """Return a model that computes in bfloat16."""
    sizes = "hidden_size=16,filter_size=16,num_heads=2,activation_dtype=bfloat16"
    return models.from_specs(
        "transformer", hparams.get("transformer_tiny", sizes), features("numbers")[1]
    )


@functools.cache
def build(name):
    """Return a model with random weights and its encoders."""
    variant, kind = MODELS[name]
    encoders, specs = features(kind)
    seed = zlib.crc32(name.encode()) % 1000
    seeds.set_seed(seed)  # the weights do not depend on the order of the tests
    model = variant_model(variant, specs)
    randomize(model, seed)
    return model, encoders


def variant_model(variant, specs):
    """Return a model: a variant of cache_test, an encoder, an LSTM or a Neural GPU."""
    if variant == "encoder":
        model_name, set_name = "universal_transformer_encoder", "universal_transformer_tiny"
        overrides = cache_test.STEPS
    elif variant == "plain_encoder":
        model_name, set_name, overrides = "transformer_encoder", "transformer_tiny", ""
    elif variant.startswith("lstm_"):
        model_name = {"lstm_attention": "lstm_seq2seq_attention", "lstm_plain": "lstm_seq2seq"}
        model_name = model_name[variant]
        small = "hidden_size=16,attention_layer_size=16,num_hidden_layers=2"
        if variant == "lstm_plain":
            return models.from_specs(
                model_name, hparams.get("lstm_seq2seq", "hidden_size=16,num_hidden_layers=2"), specs
            )
        return models.from_specs(model_name, hparams.get("lstm_luong_attention", small), specs)
    elif variant.endswith("neural_gpu"):
        hp = hparams.get("neural_gpu", "hidden_size=16,num_hidden_layers=2")
        return models.from_specs(variant, hp, specs)
    else:
        model_name, set_name, overrides = {**cache_test.VARIANTS, **_OTHERS}[variant]
    hp = hparams.get(set_name, ",".join(filter(None, [cache_test.TINY, overrides])))
    return models.from_specs(model_name, hp, specs)


_OTHERS = {
    **{name: setting[:3] for name, setting in cache_test.NOT_CACHED.items()},
    "one_layer": ("transformer", "transformer_tiny", "num_encoder_layers=1,num_decoder_layers=1"),
    "data_router": (
        *cache_test.BASIC,
        f"{cache_test.STEPS},self_attention_type=geometric,copy_gate=True,"
        "layer_preprocess_sequence=none,layer_postprocess_sequence=dan",
    ),
}


def randomize(model, seed):
    """Set random weights, so large that different inputs give different outputs."""
    for number, variable in enumerate(model.variables):
        if "seed_generator" not in variable.path:
            noise = np.random.RandomState([seed, number]).normal(size=variable.shape)
            # The initial values of kernels are random and depend on the order of the tests. So
            # the function does not use these values.
            start = variable if len(variable.shape) < 2 else 0.0
            variable.assign(start + 0.5 * noise)


def rows(encoders, texts):
    """Return the ids of each text from the encoders in Python.

    The function skips words that the encoder rejects.
    """
    is_prompt = "inputs" not in encoders
    encoder = encoders["targets" if is_prompt else "inputs"]
    return [_encode(encoder, text) + ([] if is_prompt else [text_encoder.EOS]) for text in texts]


def padded(rows):
    """Return the rows as int32 [B, S], padded with 0."""
    ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def expected(name, texts, **changed):
    """Return the [(texts, scores)] that `serving_default` must give, from `model.generate`."""
    model, encoders = build(name)
    if model.class_labels or (model.decoder is None and not model.writes_in_parallel):
        return _expected_classes(model, encoders, texts)
    ids = rows(encoders, texts)
    # Padding may change the outputs of the models below, so each text is a batch of its own.
    alone = "inputs" not in encoders or name == "lstm" or model.writes_in_parallel
    groups = [[i] for i in range(len(ids))] if alone else [range(len(ids))]
    search = {} if model.writes_in_parallel else {**SEARCH, **changed}
    results = {}
    for group in groups:
        batch = padded([ids[i] for i in group])
        found = model.generate({"inputs": batch}, **{"per_example_length": True, **search})
        for i, beams, scores in zip(group, found.ids.numpy(), found.scores.numpy(), strict=True):
            written = [_decode(encoders["targets"], beam) for beam in beams]
            results[i] = (written, scores.tolist())
    return [results[i] for i in range(len(texts))]


def _expected_classes(model, encoders, texts):
    results = []
    for text in texts:
        if model.specs["inputs"].modality == "sentences":
            ids = story_ids(encoders["inputs"], text)
        else:
            ids = padded(rows(encoders, [text]))
        features = {"inputs": ids, "targets": np.zeros([1, 1], np.int32)}
        logits = np.asarray(model(features, training=False), np.float64)[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        best = np.atleast_1d(log_probs.argmax(-1))
        decode = encoders["targets"].decode if model.class_labels else None
        text = decode([int(best[0])]) if decode else _decode(encoders["targets"], best)
        results.append(([text], [float(np.sum(log_probs.max(-1)))]))
    return results


def story_ids(encoder, text):
    """Return int32 [1, 4, 5] with the sentences of a story and its question.

    The first three rows are for the last three sentences, and the last row is the question.
    """
    ids = np.zeros([1, 4, 5], np.int32)
    sentences = [_encode(encoder, part)[:5] for part in text.split("|") if part.strip()]
    *story, question = sentences or [[]]
    for row, sentence in enumerate([*story[-3:]]):
        ids[0, row, : len(sentence)] = sentence
    ids[0, 3, : len(question)] = question
    return ids


def _decode(encoder, ids):
    return encoder.decode(text_encoder.cut_at_eos(ids)).encode("utf-8", "replace").decode()


def _encode(encoder, text):
    try:
        return encoder.encode(text)
    except ValueError:
        return [i for word in text.split() for i in _encode_word(encoder, word)]


def _encode_word(encoder, word):
    try:
        return encoder.encode(word)
    except ValueError:
        return []
