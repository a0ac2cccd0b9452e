"""Truncation and packed records in packages that override `preprocess_example`."""

import types

import pytest

from ut_keras import hparams, problems
from ut_keras.bin import trainer
from ut_keras.errors import DataError
from ut_keras.inference import free_decoding

_PREPROCESS = """
import tensorflow as tf
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    {attributes}
    def preprocess_example(self, example, mode, hparams):
        {body}
        return example
"""
_END_AGAIN = """example = problem.preprocess_example_common(example, mode, hparams)
        example["inputs"] = tf.concat([example["inputs"], [1]], 0)"""


def _source(body, attributes=""):
    return _PREPROCESS.format(body=body, attributes=attributes)


def _first(problem, make, changes, split="dev"):
    hp = hparams.get("transformer_tiny", changes)
    features, _ = next(iter(problem.dataset(split, make.data_dir, hp)))
    return {name: value.numpy() for name, value in features.items()}


def test_package_can_change_truncated_features(make, capsys):
    """As in T2T, `preprocess_example_common` truncates the features when it is called."""
    problem = make(_source(_END_AGAIN))
    cut = "max_input_seq_length=3,max_target_seq_length=2"
    features = _first(problem, make, cut)
    inputs = [byte + 2 for byte in b"eva"]
    assert features["inputs"].tolist() == [[*inputs, 1]] * 3
    assert features["targets"].shape == (3, 2)
    # `_rev` exchanges the features after `preprocess_example`, as in T2T.
    assert _first(problems.get("mine_rev"), make, cut)["targets"].tolist() == [[*inputs, 1]] * 3
    assert "no effect" not in capsys.readouterr().out


def test_limit_without_effect_prints_note(make, capsys):
    """T2T truncates nothing if the package does not call `preprocess_example_common`."""
    features = _first(make(_source("pass")), make, "max_input_seq_length=3")
    assert features["inputs"].shape == (3, len("eval 0") + 1)
    (note,) = (line for line in capsys.readouterr().out.splitlines() if "no effect" in line)
    assert "max_input_seq_length=3" in note and "mine" in note


@pytest.mark.parametrize(
    ("name", "expected"), [("mine_copy", b"eva"), ("mine_rev_copy", b"wor"), ("mine", None)]
)
def test_targets_of_copy_are_the_truncated_inputs(make, name, expected):
    make("@registry.register_problem\nclass Mine(Base):\n    vocab_type = 'character'\n")
    features = _first(problems.get(name), make, "max_input_seq_length=3")
    if expected is None:
        assert features["targets"].shape[1] == len("word 0") + 1
    else:
        ids = [byte + 2 for byte in expected]
        assert features["inputs"].tolist() == features["targets"].tolist() == [ids] * 3


def test_packed_records_keep_their_segments(make):
    problem = make(_source(_END_AGAIN.splitlines()[0], "packed_length = 64"))
    features = _first(problem, make, "max_input_seq_length=9")
    assert features["targets_segmentation"].tolist() == [[1] * 7 + [2] * 7 + [3] * 7]
    assert features["targets_position"].tolist() == [[*range(7)] * 3]
    assert features["inputs_segmentation"].tolist() == [[1] * 7 + [2] * 2]
    assert features["inputs"].shape == features["inputs_position"].shape == (1, 9)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("example['inputs'] = example['inputs'][:5]", "'inputs_segmentation' .*5.*Received: 21"),
        ("del example['targets_position']", "targets_position"),
    ],
)
def test_packed_records_with_other_parts_raise(make, body, values):
    problem = make(_source(body, "packed_length = 64"))
    with pytest.raises(DataError, match=values):
        _first(problem, make, "")


def test_package_knows_that_it_is_reversed(make):
    body = "example['inputs'] = example['inputs'][: 2 if self.was_reversed else 5]"
    problem = make(_source(body))
    assert _first(problem, make, "")["inputs"].shape[1] == 5
    assert _first(problems.get("mine_rev"), make, "")["targets"].shape[1] == 2
    assert not problem.t2t.was_reversed


@pytest.mark.parametrize(("name", "column"), [("mine", 0), ("mine_rev", 1)])
def test_package_gets_mode_of_prediction_for_decoding(make, name, column):
    """T2T decodes records in the mode PREDICT, and evaluates them in the mode EVAL."""
    body = "example['inputs'] = example['inputs'][: {'train': 2, 'eval': 3, 'infer': 4}[mode]]"
    make(_source(body))
    problem, hp = problems.get(name), hparams.get("transformer_tiny")
    run = types.SimpleNamespace(
        problem=problem, data_dir=make.data_dir, hp=hp, specs=problem.feature_specs(make.data_dir)
    )
    rows = free_decoding.read_rows(run, "dev")[column]
    assert [len(row) for row in rows] == [4] * 3
    # The trainer decodes during training, and evaluates the same split.
    of_trainer = types.SimpleNamespace(
        **vars(run),
        args=types.SimpleNamespace(data_dir=make.data_dir),
        eval_split="dev",
        decode={"num_samples": -1},
    )
    [batch] = trainer._make_decode_dataset(of_trainer)()
    feature = ("inputs", "targets")[column]
    assert batch[0][feature].shape == (3, 4)
    [batch] = problem.dataset("dev", make.data_dir, hp)
    assert batch[0][feature].shape == (3, 3)


def test_package_without_preprocessing_decodes_the_dataset_of_the_evaluation(make):
    make("@registry.register_problem\nclass Mine(Base):\n    vocab_type = 'character'\n")
    for name in ("mine", "mine_rev"):
        problem = problems.get(name)
        setup = types.SimpleNamespace(problem=problem, decode={"num_samples": -1})
        assert problem.for_decoding() is problem
        assert trainer._make_decode_dataset(setup) is None
