"""Models with large random weights, and their features, for tests of pictures."""

import numpy as np

from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.text import text_encoder

WORDS = ("a", "b", "c", "d", "e", ".", "?", "<b>x</b>")
ENCODER = text_encoder.TokenTextEncoder(tokens=WORDS)
ENCODERS = {"inputs": ENCODER, "targets": ENCODER}
ADAPTIVE = "recurrence_type=act,num_rec_steps=3,act_halting_bias_init=-2"


def build(name, changes="", specs=None, set_name="universal_transformer_tiny"):
    """Return a model with large random weights. A Universal Transformer has 3 steps by default."""
    sizes = "hidden_size=16,num_heads=2" + ",num_rec_steps=3" * name.startswith("universal")
    hp = hparams.get(set_name, sizes).override(changes)
    size = ENCODER.vocab_size
    specs = specs or {"inputs": FeatureSpec(size), "targets": FeatureSpec(size)}
    model = models.from_specs(name, hp, specs)
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape).astype("float32"))
    return model


def story_model(name="universal_transformer_encoder", changes=ADAPTIVE):
    """Return a model for stories of at most 4 sentences with at most 3 words each.

    The last sentence is the question.
    """
    size = ENCODER.vocab_size
    specs = {
        "inputs": FeatureSpec(size, "sentences", (4, 3)),
        "targets": FeatureSpec(size, "class_label"),
    }
    return build(name, changes, specs)


def ids(text):
    return ENCODER.encode(text)


def story():
    """Return a story: two sentences, an empty sentence and the question."""
    return {"inputs": np.array([[ids("a b ."), ids("c d ."), [0, 0, 0], ids("a e ?")]])}
