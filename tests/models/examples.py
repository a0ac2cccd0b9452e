"""Small models of every kind, and a batch for each kind."""

import functools

import numpy as np

from tests import seeds
from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec

SIZE = "hidden_size=16,filter_size=24,num_heads=2"
LSTM_SIZE = "hidden_size=16,attention_layer_size=12,num_heads=2"
NEURAL_GPU_SIZE = "hidden_size=16,num_hidden_layers=2"
V, C, B = 13, 4, 3
INPUTS = np.array([[5, 3, 7, 2, 1], [4, 6, 1, 0, 0], [9, 1, 0, 0, 0]], "int32")
TARGETS = np.array([[3, 8, 2, 1], [6, 1, 0, 0], [2, 12, 1, 0]], "int32")
CLASSES = np.array([[2], [0], [3]], "int32")
# The shape is [B, sentences, words]. The last sentence is the question.
STORIES = np.array(
    [
        [[3, 4, 1], [5, 1, 0], [6, 7, 1]],
        [[8, 1, 0], [0, 0, 0], [9, 1, 0]],
        [[0, 0, 0], [0, 0, 0], [3, 1, 0]],
    ],
    "int32",
)

SYMBOLS = FeatureSpec(V)
LABELS = FeatureSpec(C, "class_label")
SENTENCES = FeatureSpec(V, "sentences", STORIES.shape[1:])

_BOTH = {"inputs": SYMBOLS, "targets": SYMBOLS}
_CLASSIFY = {"inputs": SYMBOLS, "targets": LABELS}
_ANSWER = {"inputs": SENTENCES, "targets": SYMBOLS}
_FEATURES = {"inputs": INPUTS, "targets": TARGETS}

# `KINDS` maps a kind to (model, hparams set, specs, features).
KINDS = {
    "transformer": ("transformer", "transformer_tiny", _BOTH, _FEATURES),
    "language_model": (
        "transformer",
        "transformer_tiny",
        {"targets": SYMBOLS},
        {"targets": TARGETS},
    ),
    "classifier": (
        "transformer",
        "transformer_tiny",
        _CLASSIFY,
        {"inputs": INPUTS, "targets": CLASSES},
    ),
    "plain_encoder": (
        "transformer_encoder",
        "transformer_tiny",
        _CLASSIFY,
        {"inputs": INPUTS, "targets": CLASSES},
    ),
    "universal": ("universal_transformer", "universal_transformer_tiny", _BOTH, _FEATURES),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_tiny", _BOTH, _FEATURES),
    "adaptive_language_model": (
        "universal_transformer",
        "adaptive_universal_transformer_tiny",
        {"targets": SYMBOLS},
        {"targets": TARGETS},
    ),
    "encoder": (
        "universal_transformer_encoder",
        "adaptive_universal_transformer_tiny",
        _CLASSIFY,
        {"inputs": INPUTS, "targets": CLASSES},
    ),
    "tagger": (
        "universal_transformer_encoder",
        "universal_transformer_tiny",
        _BOTH,
        {"inputs": INPUTS, "targets": INPUTS[:, ::-1].copy()},
    ),
    "stories": (
        "universal_transformer",
        "adaptive_universal_transformer_tiny",
        _ANSWER,
        {"inputs": STORIES, "targets": TARGETS},
    ),
    "lstm": ("lstm_seq2seq", "lstm_seq2seq", _BOTH, _FEATURES),
    "lstm_language_model": (
        "lstm_seq2seq",
        "lstm_seq2seq",
        {"targets": SYMBOLS},
        {"targets": TARGETS},
    ),
    "lstm_attention": ("lstm_seq2seq_attention", "lstm_attention", _BOTH, _FEATURES),
    "lstm_bidirectional": (
        "lstm_seq2seq_attention_bidirectional_encoder",
        "lstm_luong_attention",
        _BOTH,
        _FEATURES,
    ),
    "lstm_classifier": (
        "lstm_seq2seq_attention",
        "lstm_luong_attention",
        _CLASSIFY,
        {"inputs": INPUTS, "targets": CLASSES},
    ),
    "lstm_stories": (
        "lstm_seq2seq",
        "lstm_seq2seq",
        _ANSWER,
        {"inputs": STORIES, "targets": TARGETS},
    ),
    "neural_gpu": ("neural_gpu", "neural_gpu", _BOTH, _FEATURES),
    "diagonal_neural_gpu": ("diagonal_neural_gpu", "neural_gpu", _BOTH, _FEATURES),
    "neural_gpu_classifier": (
        "neural_gpu",
        "neural_gpu",
        _CLASSIFY,
        {"inputs": INPUTS, "targets": CLASSES},
    ),
}
SEQUENCE_KINDS = tuple(
    kind
    for kind, example in KINDS.items()
    if "targets" in example[3]
    and example[2]["targets"] is SYMBOLS
    and kind != "tagger"
    and "neural_gpu" not in kind
)

NEURAL_GPUS = tuple(kind for kind in KINDS if "neural_gpu" in kind)
ENCODERS = ("encoder", "plain_encoder", "tagger", *NEURAL_GPUS)  # models without a decoder


def make(kind, overrides=""):
    """Return a new model with perturbed weights, because initial weights hide mistakes."""
    name, hparams_set, specs, _ = KINDS[kind]
    steps = ",num_rec_steps=3,act_max_steps=3" if "universal" in name else ""
    size = LSTM_SIZE if name.startswith("lstm") else SIZE
    size = NEURAL_GPU_SIZE if "neural_gpu" in name else size
    hp = hparams.get(hparams_set, size + steps).override(overrides)
    seeds.set_seed(0)
    model = models.from_specs(name, hp, specs)
    random = np.random.RandomState(0)
    for variable in model.trainable_variables:
        variable.assign_add(0.1 * random.normal(size=variable.shape))
    return model


@functools.cache
def shared(kind):
    """Return the model that all tests share. Tests must not change its weights."""
    return make(kind)


def features(kind):
    """Return a batch for a kind of model."""
    return dict(KINDS[kind][3])


@functools.cache
def logits(kind):
    """Return the logits of the shared model for the batch."""
    return shared(kind)(features(kind), training=False).numpy()


def logits_shape(kind, batch=B):
    """Return the expected shape of the logits."""
    _, _, specs, arrays = KINDS[kind]
    if specs["targets"].modality == "class_label":
        return (batch, C)
    length = "inputs" if "neural_gpu" in kind else "targets"
    return (batch, arrays[length].shape[1], V)
