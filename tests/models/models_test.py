"""The models by name."""

import subprocess
import sys

import pytest

import hparams
from ut_keras import models, registry
from ut_keras.data.features import FeatureSpec


class _Problem:
    """As much of a `Problem` as a model asks for."""

    target_space_id = 7

    def feature_specs(self, data_dir):
        assert data_dir == "some/folder"
        return {"inputs": FeatureSpec(9), "targets": FeatureSpec(3, "class_label")}


def test_names():
    assert models.names() == [
        "lstm_seq2seq",
        "lstm_seq2seq_attention",
        "transformer",
        "universal_transformer",
        "universal_transformer_encoder",
    ]


def test_listing_loads_no_tensorflow():
    code = (
        "import sys; from ut_keras import models; models.names(); models.check_name('transformer');"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="universal_transformer"):
        models.check_name("universal_transfromer")


def test_problem_says_what_its_features_are():
    hp = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2")
    model = models.get("transformer", hp, _Problem(), "some/folder")
    assert model.class_labels
    assert model.target_space_id == 7
    assert model.name == "transformer"
    assert model.source_embedding.vocab_size == 9
    assert model.class_label_head.num_classes == 3


@pytest.mark.parametrize(
    "arguments", [{}, {"problem": _Problem(), "vocab_sizes": {"targets": 3}}], ids=["none", "both"]
)
def test_problem_or_vocab_sizes(arguments):
    with pytest.raises(ValueError, match="or vocab_sizes, one of the two. Received: problem="):
        models.get("transformer", hparams.get("transformer_tiny"), **arguments)
