"""Tests of errors and notes for incomplete or unsupported problems of a package."""

import contextlib
import os

import pytest
import tensorflow as tf

from ut_keras import hparams, problems
from ut_keras.errors import DataError, UserError
from ut_keras.hparams.registry import RANGES
from ut_keras.t2t import missing, registry


@pytest.mark.parametrize(
    "body, message",
    [
        ("def input_fn(self, *args): pass", "Mine .*preprocess_example.* input_fn"),
        ("def make_estimator_input_fn(self, *args): pass", "make_estimator_input_fn"),
        ("def _pack_fn(self): pass", "Mine .*packed_length.* _pack_fn"),
        ("def maybe_copy_features(self, x): pass", "preprocess_example .* maybe_copy_features"),
        ("packed_spacing = 2", "packed_spacing of Mine must be 0. Received: 2"),
    ],
)
def test_unsupported_override_raises_before_writing(make, tmp_path, body, message):
    with pytest.raises(DataError, match=message):
        make(f"@registry.register_problem\nclass Mine(Base):\n    {body}\n")
    assert not (tmp_path / "data").exists()


def test_missing_encoder_raises_before_own_generate_data(make, tmp_path):
    with pytest.raises(missing.Missing, match="DNAEncoder"):
        make(
            """
from tensor2tensor.data_generators import dna_encoder

@registry.register_problem
class Mine(Base):
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        raise AssertionError
    def feature_encoders(self, data_dir):
        return {"inputs": dna_encoder.DNAEncoder(4)}
"""
        )


def test_unsupported_modality_raises(make):
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        defaults.modality["targets"] = modalities.ModalityType.REAL
""",
        generated=False,
    )
    message = "symbol or class_label. Received: targets, real"
    with pytest.raises(DataError, match=message):
        problem.feature_specs(make.data_dir)
    with pytest.raises(DataError, match=message):
        problem.generate_data(make.data_dir)
    assert not os.listdir(make.data_dir)


def test_override_without_effect_prints_one_note(make, capsys):
    make(
        "@registry.register_problem\nclass Mine(Base):\n    decode_hooks = [print]\n",
        generated=False,
    )
    problems.get("mine")
    lines = capsys.readouterr().out.splitlines()
    assert sum("decode_hooks of Mine" in line and "ut-bleu" in line for line in lines) == 1


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "Mine .*generate_samples.*Received: a class without it"),
        ("is_generate_per_split = True", "Mine .*generate_samples"),
        ("generator = None", r"a class without it, .*`generator`.*before 1\.5\.2"),
        ('samples = [{"inputs": 3, "targets": "x"}]', "the text 'inputs'. Received: {'inputs': 3"),
        ('samples = [{"inputs": "x"}]', "dict with the text 'targets'. Received: {'inputs': 'x'}"),
        ('samples = ["x"]', "a dict with the text 'inputs'. Received: 'x'"),
        (
            'samples = [{"inputs": "x", "label": 0}]\n    kind = "class"',
            "Mine .*num_classes",
        ),
        *(
            (
                f'samples = [{{"inputs": "x", "label": {label}}}]\n    kind = "class"\n'
                "    num_classes = 2",
                rf'must have a "label" in \[0, 2\), .*Received: .*{label}',
            )
            for label in ("'pos'", "2", "-1")
        ),
    ],
)
def test_incomplete_class_or_sample_raises_one_line(load, tmp_path, body, message):
    base = "Text2ClassProblem" if "class" in body else "Text2TextProblem"
    generate = "    def generate_samples(self, *where):\n        yield from self.samples\n"
    load(
        "from tensor2tensor.data_generators import text_problems\n"
        "from tensor2tensor.utils import registry\n"
        "@registry.register_problem\n"
        f"class Mine(text_problems.{base}):\n"
        "    is_generate_per_split = True\n"
        "    vocab_type = text_problems.VocabType.CHARACTER\n"
        f"    {body}\n" + (generate if "samples" in body else "")
    )
    with pytest.raises(DataError, match=message) as error:
        problems.get("mine").generate_data(str(tmp_path / "data"), str(tmp_path / "tmp"))
    assert "\n" not in str(error.value)


def test_problem_without_targets_encoder_raises(make):
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def feature_encoders(self, data_dir):
        return {"inputs": text_encoder.ByteTextEncoder()}
    def hparams(self, defaults, model_hparams):
        defaults.modality = dict.fromkeys(["inputs", "targets"], modalities.ModalityType.SYMBOL)
        defaults.vocab_size = dict.fromkeys(["inputs", "targets"], 300)
""",
        generated=False,
    )
    with pytest.raises(DataError, match="mine must have targets, with an encoder"):
        problem.feature_specs(make.data_dir)


def test_real_valued_feature_raises_before_writing(make, tmp_path):
    with pytest.raises(DataError, match="inputs and targets of ints .*Text2ClassProblem"):
        make(
            """
import tensorflow as tf

@registry.register_problem
class Mine(Base):
    def example_reading_spec(self):
        fields, decoders = super().example_reading_spec()
        return {**fields, "targets": tf.io.FixedLenFeature([1], tf.float32)}, decoders
"""
        )
    assert not (tmp_path / "data").exists()


def test_decoders_raise_when_data_are_read(make):
    """Existing records, such as T2T's, would be read without the decoders."""
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def example_reading_spec(self):
        fields, _ = super().example_reading_spec()
        return {**fields, "dist_targets": None}, {"targets": "the feature dist_targets"}
""",
        generated=False,
    )
    hp = hparams.get("transformer_tiny")
    with pytest.raises(DataError, match="fields of ints only. Received: decoders of targets"):
        problem.record_specs(make.data_dir)
    with pytest.raises(DataError):
        problem.generate_data(make.data_dir)
    del type(problem.t2t).example_reading_spec
    problem.generate_data(make.data_dir)
    problem.dataset("dev", make.data_dir, hp)


@pytest.mark.parametrize("by_tasks", [False, True])
def test_num_generate_tasks_is_checked_with_multiprocess_generate(make, by_tasks):
    problem = make(
        f"""
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    multiprocess_generate = {by_tasks}
    num_generate_tasks = None
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        super().generate_data(data_dir, tmp_dir, task_id)
""",
        generated=False,
    )
    message = "num_generate_tasks of Mine must be an int from 1"
    with pytest.raises(DataError, match=message) if by_tasks else contextlib.nullcontext():
        problem.generate_data(make.data_dir)


@pytest.mark.parametrize(
    "method, arguments, received",
    [
        ("generate_samples", "data_dir, tmp_dir, dataset_split", "self"),
        ("hparams", "defaults, model_hparams", "self"),
        ("eval_metrics", "", "self, x"),
        ("feature_encoders", "data_dir", "self"),
        ("example_reading_spec", "", "self, x"),
        ("preprocess_example", "example, mode, hparams", "self, example"),
        ("generate_text_for_vocab", "data_dir, tmp_dir", "self, data_dir"),
        ("get_or_create_vocab", "data_dir, tmp_dir, force_get", "self, data_dir, tmp_dir"),
        ("generate_encoded_samples", "data_dir, tmp_dir, dataset_split", "self, data_dir"),
        ("generate_data", "data_dir, tmp_dir, task_id", "self, data_dir, tmp_dir"),
        ("dataset_filename", "", "self, x"),
        ("max_length", "model_hparams", "self"),
        ("class_labels", "data_dir", "self"),
    ],
)
def test_method_with_other_arguments_raises_one_line(make, tmp_path, method, arguments, received):
    with pytest.raises(DataError) as error:
        make(f"@registry.register_problem\nclass Mine(Base):\n    def {method}({received}): pass\n")
    message = str(error.value)
    expected = ", ".join(filter(None, ["self", arguments]))
    assert f"Mine.{method}" in message and f"{method}({expected})" in message
    assert f"Received: {method}({received})." in message and "\n" not in message
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "body",
    [
        "def generate_samples(self, *args): return iter(())",
        "def generate_samples(self, data_dir, tmp_dir, dataset_split, more=1): return iter(())",
        "@staticmethod\n    def generate_samples(data_dir, tmp_dir, split): return iter(())",
        "@classmethod\n    def hparams(cls, defaults, model_hparams): pass",
        "def eval_metrics(self, names=()): return ['accuracy']",
        "def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)",
        "def get_or_create_vocab(self, a, b): pass\n    def feature_encoders(self, data_dir): pass",
    ],
)
def test_method_accepting_t2ts_arguments_is_valid(make, body):
    make(f"@registry.register_problem\nclass Mine(Base):\n    {body}\n", generated=False)


@pytest.mark.parametrize("kind", ["property", "list"])
def test_value_instead_of_method_raises_one_line(make, kind):
    body = {
        "property": "@property\n    def eval_metrics(self): return ['accuracy']",
        "list": "eval_metrics = ['accuracy']",
    }[kind]
    received = {"property": "<property object", "list": r"\['accuracy'\]\.$"}[kind]
    message = rf"eval_metrics of Mine must be a method.*eval_metrics\(self\)\. Received: {received}"
    with pytest.raises(DataError, match=message):
        make(f"@registry.register_problem\nclass Mine(Base):\n    {body}\n")


@pytest.mark.parametrize("received", ["self, a, b", "self", "self, was_reversed"])
def test_init_with_other_arguments_raises_one_line(make, received):
    with pytest.raises(DataError) as error:
        make(
            f"@registry.register_problem\nclass Mine(Base):\n    def __init__({received}): pass\n",
            generated=False,
        )
    message = str(error.value)
    assert (
        "Mine.__init__" in message
        and "__init__(self, was_reversed=False, was_copy=False)" in message
    )
    assert f"Received: __init__({received})." in message


def test_set_function_with_argument_raises_one_line(load):
    load(
        """
        from tensor2tensor.utils import registry

        @registry.register_hparams
        def my_set(hparams): return hparams

        @registry.register_hparams
        def my_empty_set(): pass

        @registry.register_ranged_hparams
        def my_range(): pass
        """
    )
    with pytest.raises(UserError, match=r"my_set .* my_set\(\)\. Received: my_set\(hparams\)\."):
        hparams.get("my_set")
    with pytest.raises(UserError, match=r"set my_set .* Received: my_set\(hparams\)\."):
        registry.hparams("my_set")
    with pytest.raises(UserError, match="set my_empty_set must return hparams. Received: None"):
        hparams.get("my_empty_set")
    with pytest.raises(UserError, match=r"my_range .* my_range\(rhp\)\. Received: my_range\(\)\."):
        RANGES.get("my_range")(None)


_SEVERAL_LABELS = """
class Several(text_problems.Text2ClassProblem):
    is_generate_per_split = True
    approx_vocab_size = 2**8
    num_classes = 4
    dataset_splits = Base.dataset_splits
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(8):
            yield {"inputs": f"text {number}", "label": [0, number % 4]}
    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
            yield {"inputs": encoder.encode(sample["inputs"]) + [1], "targets": sample["label"]}

@registry.register_problem
class Mine(Several):
"""


@pytest.mark.parametrize(
    "hparams_of, own_data, message",
    [
        (
            "defaults.modality['targets'] = modalities.ModalityType.MULTI_LABEL",
            False,
            "Received: targets, multi_label",
        ),
        (
            "defaults.modality['targets'] = modalities.ModalityType.MULTI_LABEL",
            True,
            "Received: targets, multi_label",
        ),
        (
            "defaults.modality = {}; defaults.target_modality = ('class_label:multi_label', 4)",
            False,
            "Received: targets, class_label:multi_label",
        ),
        ("pass", False, r"targets of mine .*class_label.* Received: \[0, 0\]"),
    ],
)
def test_multi_label_problem_raises_before_data(make, hparams_of, own_data, message):
    problem = make(
        _SEVERAL_LABELS
        + f"""
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        {hparams_of}
"""
        + ("    def generate_data(self, *where): raise AssertionError" if own_data else ""),
        generated=False,
    )
    with pytest.raises(DataError, match=message):
        problem.generate_data(make.data_dir)
    assert not [name for name in os.listdir(make.data_dir) if name.startswith("mine-")]


def test_modality_with_default_suffix_is_the_modality(make):
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        defaults.input_modality = {"inputs": ("symbol:default", 300)}
        defaults.target_modality = ("symbol:default", 300)
"""
    )
    specs = problem.feature_specs(make.data_dir)
    assert {name: spec.modality for name, spec in specs.items()} == {
        "inputs": "symbol",
        "targets": "symbol",
    }


def test_modality_classes_of_older_versions_are_modalities(make):
    """Packages for T2T 1.11 and 1.12 use classes instead of names."""
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        defaults.modality = {"inputs": modalities.SymbolModality,
                             "targets": modalities.ClassLabelModality}
        defaults.vocab_size = {"inputs": 258, "targets": 7}
""",
        generated=False,
    )
    specs = problem.feature_specs(make.data_dir)
    assert {name: (spec.modality, spec.vocab_size) for name, spec in specs.items()} == {
        "inputs": ("symbol", 258),
        "targets": ("class_label", 7),
    }


@pytest.mark.parametrize("value", ["Own", "Own(model_hparams, 258)"])
def test_modality_class_of_a_package_raises_when_used(make, value):
    """Other problems of a package that defines such a class can be used."""
    with pytest.raises(DataError, match="targets of mine must be .* of its own.*Received: Own[.]"):
        make(
            """
class Own(modalities.SymbolModality):
    def __init__(self, *args): pass
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        defaults.modality = {"inputs": modalities.SymbolModality, "targets": VALUE}
        defaults.vocab_size = {"inputs": 258, "targets": 258}
@registry.register_problem
class Other(Base):
    vocab_type = text_problems.VocabType.CHARACTER
""".replace("VALUE", value)
        )
    assert problems.get("other").feature_specs(make.data_dir)["targets"].modality == "symbol"


@pytest.mark.parametrize("body", ["return [metrics.Metrics.NOWHERE]", "raise KeyError('later')"])
def test_data_generation_does_not_read_eval_metrics(make, body):
    """Only in training, T2T reads eval_metrics and rejects unknown names."""
    problem = make(
        "@registry.register_problem\nclass Mine(Base):\n"
        f"    approx_vocab_size = 2**8\n    def eval_metrics(self): {body}\n"
    )
    assert len(make.records(problem, "train")) == 6
    with pytest.raises((UserError, KeyError), match="NOWHERE|later"):
        _ = problem.eval_metrics


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tf.cast(example['inputs'], tf.float32) + .7", "mine must return inputs .*float32"),
        ("example['inputs'] + 2 ** 32", "inputs.* 2147483647 in preprocess_ex.* of mine"),
    ],
)
def test_preprocess_example_returns_ids(make, value, message):
    """A cast to int32 would truncate floats, and 2**32 + 5 would become 5."""
    problem = make(
        f"""
import tensorflow as tf
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def preprocess_example(self, example, mode, hparams):
        example["inputs"] = {value}
        return example
"""
    )
    with pytest.raises((DataError, tf.errors.OpError), match=message):
        next(iter(problem.dataset("train", make.data_dir, hparams.get("transformer_tiny"))))
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():  # other strategies still work
        pass
