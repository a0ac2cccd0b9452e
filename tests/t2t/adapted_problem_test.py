import os
import shutil

import numpy as np
import pytest
from absl import flags

import ut_keras
from ut_keras import hparams, models, problems
from ut_keras.bin import datagen
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.files import path_lock, whole_file
from ut_keras.inference import feature_record, saved_run
from ut_keras.text import text_encoder

_T2T_DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "testdata", "t2t", "data_dir")


def _texts(make, problem, split, name="inputs"):
    encoder = problem.feature_encoders(make.data_dir)[name]
    return sorted(
        encoder.decode(text_encoder.cut_at_eos(record[name]))
        for record in make.records(problem, split)
    )


def test_adapted_problem_writes_split_files_and_vocabulary(make, tmp_path):
    problem = make(
        "@registry.register_problem\nclass Mine(Base):\n    inputs_prefix = 'translate '\n"
    )
    assert problem.splits == ("train", "dev", "test")
    assert [problem.num_shards(split) for split in problem.splits] == [2, 1, 1]
    found = {split: _texts(make, problem, split) for split in problem.splits}
    assert found["train"] == [f"translate train {number}" for number in range(6)]
    assert found["dev"] == [f"translate eval {number}" for number in range(3)]
    assert found["test"] == [f"translate test {number}" for number in range(2)]
    assert (tmp_path / "data" / "vocab.mine.256.subwords").exists()
    assert problem.eval_metrics[-1] == "rouge_L_fscore"
    # A run stores the vocabulary. Therefore the encoders must be encoders of ut_keras.
    record = feature_record.from_problem(problem, make.data_dir)
    assert type(record.encoders["inputs"]) is text_encoder.SubwordTextEncoder
    assert record.encoders["inputs"] is record.encoders["targets"]
    (tmp_path / "run").mkdir()
    feature_record.save(str(tmp_path / "run"), record)
    assert feature_record.load(str(tmp_path / "run")).specs == record.specs


def test_package_adds_feature_of_numbers_and_copies_generate_data(make, capsys):
    problem = make(
        """
from tensor2tensor.data_generators import generator_utils
import tensorflow as tf

@registry.register_problem
class Mine(Base):
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_samples(data_dir, tmp_dir, dataset_split):
            yield {**sample, "turns": [0, 1, 0]}
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        paths = self.training_filepaths(data_dir, 2, shuffled=False)
        paths += self.dev_filepaths(data_dir, 1, shuffled=False)
        samples = self.generate_encoded_samples(data_dir, tmp_dir, "train")
        generator_utils.generate_files(self._maybe_pack_examples(samples), paths)
        generator_utils.shuffle_dataset(paths, extra_fn=self._pack_fn())
    def example_reading_spec(self):
        return {name: tf.VarLenFeature(tf.int64) for name in ("inputs", "targets", "turns")}, None
    def feature_encoders(self, data_dir):
        encoders = super().feature_encoders(data_dir)
        return {**encoders, "turns": text_encoder.RealEncoder()}
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        defaults.modality["turns"] = modalities.ModalityType.IDENTITY
        defaults.vocab_size["turns"] = 3
    def preprocess_example(self, example, mode, hparams):
        example["turns"] = tf.one_hot(example["turns"], depth=3, dtype=tf.float32)
        return example
"""
    )
    assert {tuple(record["turns"]) for record in make.records(problem, "dev")} == {(0, 1, 0)}
    encoder = problem.t2t.feature_encoders(make.data_dir)["turns"]
    assert encoder.decode(encoder.encode("1 2.5")) == "1.0 2.5"
    batch, _ = next(iter(problem.dataset("train", make.data_dir, hparams.get("transformer_tiny"))))
    assert set(batch) == {"inputs", "targets"}
    datagen._inspect(problem, make.data_dir, 1)
    message = capsys.readouterr().out
    assert "before preprocess_example" in message and "turns" in message
    problem.t2t.packed_length = 8
    with pytest.raises(DataError, match="packed_length .*Received: 8 in Mine"):
        problem.t2t._pack_fn()
    (row,) = problem.t2t._maybe_pack_examples([{"inputs": [2, 1], "targets": [3, 1]}] * 2)
    assert row["targets"] == [3, 1, 3, 1] and row["targets_segmentation"] == [1, 1, 2, 2]


def test_text_prefix_is_the_prefix_of_the_records(make):
    """As in T2T, classification problems ignore the prefixes."""
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    inputs_prefix = "in "
    targets_prefix = "out "

@registry.register_problem
class MyClasses(text_problems.Text2ClassProblem, Base):
    inputs_prefix = "in "
    num_classes = 2
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": f"text {number}", "label": number % 2} for number in range(9))
"""
    )
    classes, reverse = problems.get("my_classes"), problems.get("mine_rev")
    assert [problem.text_prefix(name) for name in ("inputs", "targets")] == ["in ", "out "]
    assert [reverse.text_prefix(name) for name in ("inputs", "targets")] == ["out ", "in "]
    classes.generate_data(make.data_dir)
    for one in (problem, classes):
        prefix = one.text_prefix("inputs")
        texts = _texts(make, one, "train")
        assert {text.startswith("in ") for text in texts} == {prefix == "in "}


def test_missing_prefix_is_logged(make, tmp_path, caplog):
    """`ut_keras.load` does not need the package, so the run contains the prefixes."""
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    inputs_prefix = "in "
    vocab_type = text_problems.VocabType.CHARACTER
"""
    )
    hp = hparams.get("transformer_tiny", "hidden_size=8,filter_size=8,num_heads=2")
    model = models.get("transformer", hp, problem, make.data_dir)
    saved_run.SavedRun.of(model, problem, make.data_dir).save(tmp_path / "saved")
    feature_record.save(str(tmp_path), feature_record.from_problem(problem, make.data_dir))
    assert feature_record.load(str(tmp_path)).prefixes == {"inputs": "in "}
    run = ut_keras.load(tmp_path / "saved")
    run.translate(["in a", ""], beam_size=1, decode_length=1)
    assert "Data generation added" not in caplog.text
    for _ in range(2):
        run.translate(["in a", "a", "an"], beam_size=1, decode_length=1)
    (note,) = (message for message in caplog.messages if "Data generation added" in message)
    assert "'in '" in note and "2 texts do not begin with it" in note


def test_classes_have_labels(make, capsys):
    problem = make(
        """
@registry.register_problem
class Mine(Base, text_problems.Text2ClassProblem):
    num_classes = 2
    vocab_type = text_problems.VocabType.CHARACTER
    def class_labels(self, data_dir):
        return ["bad", "good"]
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(4):
            yield {"inputs": f"{dataset_split} {number}", "label": number % 2}
    feature_encoders = text_problems.Text2ClassProblem.feature_encoders
    hparams = text_problems.Text2ClassProblem.hparams
    encoded = text_problems.Text2ClassProblem.encoded
    texts_of = text_problems.Text2ClassProblem.texts_of
    def eval_metrics(self):
        return [metrics.Metrics.ACC, metrics.Metrics.TWO_CLASS_ACCURACY]
"""
    )
    specs = problem.feature_specs(make.data_dir)
    assert specs["targets"].modality == "class_label" and specs["targets"].vocab_size == 2
    assert problem.feature_encoders(make.data_dir)["targets"].decode([1]) == "good"
    problem.t2t.class_labels = lambda data_dir: [0, 1]  # T2T accepts ints
    assert problem.t2t.feature_encoders(make.data_dir)["targets"].decode([1]) == "1"
    labels = [record["targets"] for record in make.records(problem, "dev")]
    assert labels == [[0], [1], [0], [1]]
    problem.t2t.feature_encoders = lambda data_dir: {"inputs": text_encoder.ByteTextEncoder()}
    problem._cache.clear()
    # As in T2T, the package's encoders need no entry "targets".
    assert problem.feature_encoders(make.data_dir)["targets"].decode([1]) == "1"
    assert problem.eval_metrics == ("accuracy",)
    lines = capsys.readouterr().out.splitlines()
    assert sum("mine" in line and "two_class_accuracy" in line for line in lines) == 1
    hp = hparams.get("transformer_tiny", "batch_size=64")
    features, targets = next(iter(problem.dataset("dev", make.data_dir, hp)))
    assert targets.shape == (4, 1) and features["inputs"].shape[0] == 4


def test_token_vocabulary_written_by_package_is_used(make):
    problem = make(
        """
import os
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.TOKEN
    oov_token = "UNK"
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        words = text_encoder.TokenTextEncoder(None, vocab_list=["UNK", "word", "train", "0"])
        words.store_to_file(os.path.join(data_dir, self.vocab_filename))
        return super().generate_samples(data_dir, tmp_dir, dataset_split)
"""
    )
    assert problem.side_files() == ("vocab.mine.tokens",)
    assert _texts(make, problem, "train", "targets").count("word UNK") == 5
    os.remove(os.path.join(make.data_dir, "vocab.mine.tokens"))
    with pytest.raises(DataError, match="mine.tokens .*words of Mine"):
        problem.t2t.get_or_create_vocab(make.data_dir, None)


def test_packed_length_packs_examples(make):
    problem = make("@registry.register_problem\nclass Mine(Base):\n    packed_length = 64\n")
    [row] = make.records(problem, "dev")
    assert max(row["targets_segmentation"]) == 3 and len(row["inputs"]) > 9
    assert problem.max_length == 64
    hp = hparams.get("transformer_tiny", "batch_size=64")
    features, _ = next(iter(problem.dataset("dev", make.data_dir, hp)))
    assert set(features) == {
        f"{name}{part}"
        for name in ("inputs", "targets")
        for part in ("", "_segmentation", "_position")
    }


def test_package_encodes_its_own_samples(make):
    problem = make(
        """
class Letters:
    vocab_size = 130
    def encode(self, text):
        return [ord(letter) for letter in text]
    def decode(self, ids, strip_extraneous=False):
        return "".join(map(chr, ids))

@registry.register_problem
class Mine(Base):
    def feature_encoders(self, data_dir):
        return {"inputs": Letters(), "targets": Letters()}
    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        for sample in text_problems.text2text_generate_encoded(samples, Letters()):
            yield {**sample, "idx": [7], "note": ["a text"]}
"""
    )
    assert problem.side_files() == ()
    assert _texts(make, problem, "dev") == ["eval 0", "eval 1", "eval 2"]
    assert set(make.records(problem, "dev")[0]) == {"inputs", "targets"}
    assert problem.feature_specs(make.data_dir)["inputs"].vocab_size == 130


def test_package_overrides_generate_data(make, capsys):
    problem = make(
        """
import numpy as np
from tensor2tensor.data_generators import generator_utils

@registry.register_problem
class Mine(problem.Problem):
    def numbers(self, count):
        for _ in range(count):
            ids = np.random.randint(2, 12, size=5).tolist()
            yield {"inputs": ids + [1], "targets": ids[::-1] + [1]}
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        generator_utils.generate_dataset_and_shuffle(
            self.numbers(20), self.training_filepaths(data_dir, 2, shuffled=False),
            self.numbers(5), self.dev_filepaths(data_dir, 1, shuffled=False))
    def hparams(self, defaults, model_hparams):
        defaults.modality = {"inputs": modalities.ModalityType.SYMBOL,
                             "targets": modalities.ModalityType.SYMBOL}
        defaults.vocab_size = {"inputs": 12, "targets": 12}
        defaults.input_space_id = problem.SpaceID.DIGIT_0
        defaults.target_space_id = problem.SpaceID.DIGIT_1
        defaults.batch_size_multiplier = 4
    def eval_metrics(self):
        return [metrics.Metrics.ACC_PER_SEQ]
"""
    )
    assert len(make.records(problem, "train")) == 20
    assert len(make.records(problem, "dev")) == 5
    assert problem.feature_specs(make.data_dir)["targets"].vocab_size == 12
    assert problem.target_space_id == 11 and problem.eval_metrics == ("accuracy_per_sequence",)
    assert problems.get("mine_rev").target_space_id == 10
    lines = capsys.readouterr().out.splitlines()
    assert sum("batch_size_multiplier of mine" in line for line in lines) == 1
    assert problem.feature_encoders(make.data_dir)["inputs"].encode("0 9") == [2, 11]


def test_package_generates_data_of_a_problem_that_it_creates(make):
    problem = make(
        """
@registry.register_problem
class Other(Base):
    pass

@registry.register_problem
class Mine(Base):
    use_vocab_from_other_problem = Other()
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        Other().generate_data(data_dir, tmp_dir)
        super().generate_data(data_dir, tmp_dir, task_id)
"""
    )
    other = problems.get("other")
    assert _texts(make, problem, "dev") == ["eval 0", "eval 1", "eval 2"]
    texts, others = (sorted(_texts(make, each, "train")) for each in (problem, other))
    assert texts == others != []
    assert problem.side_files() == other.side_files() != ()


def test_package_generates_data_of_a_class_that_it_does_not_register(make):
    problem = make(
        """
class Other(Base):
    name = "other"

@registry.register_problem
class Mine(Base):
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        Other().generate_data(data_dir, tmp_dir)
        super().generate_data(data_dir, tmp_dir, task_id)
"""
    )
    names = {name.split("-")[0] for name in os.listdir(make.data_dir) if "-train-" in name}
    assert names == {"mine", "other"}
    assert _texts(make, problem, "dev") == ["eval 0", "eval 1", "eval 2"]


def test_inspect_exchanges_stored_records_of_reversed_problem(make, capsys):
    make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def preprocess_example(self, example, mode, hparams):
        return example
"""
    )
    datagen._inspect(problems.get("mine_rev"), make.data_dir, 1)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if '"test ' in line)
    assert line.split()[0] == "targets"


def test_preprocess_example_depends_on_mode_and_hparams(make):
    problem = make(
        """
import tensorflow as tf
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def preprocess_example(self, example, mode, hparams):
        example = super().preprocess_example(example, mode, hparams)
        length = hparams.max_length if mode == tf.estimator.ModeKeys.TRAIN else 2
        if tf.size(example["inputs"]) > length:  # T2T allows a condition on a tensor
            example["inputs"] = example["inputs"][:length]
        example["inputs"] = tf.concat([example["inputs"], [1]], 0)
        return example
"""
    )
    hp = hparams.get("transformer_tiny", "batch_size=64,max_length=12")
    features, _ = next(iter(problem.dataset("dev", make.data_dir, hp)))
    assert features["inputs"].shape[1] == 3
    turned = problems.get("mine_rev")  # this problem uses the mode of `mine`
    # "train 0" has 9 ids: 7 letters, EOS, and the EOS that the package adds.
    for split, length in (("train", 9), ("dev", 3)):
        for _, targets in turned.dataset(split, make.data_dir, hp):
            assert targets.shape[1] == length and np.all(targets.numpy()[:, -1] == 1)


def test_problem_reads_hparam_added_by_set(make):
    problem = make(
        """
from tensor2tensor.models import transformer

@registry.register_hparams
def cutting():
    hparams = transformer.transformer_tiny()
    hparams.add_hparam("cut", 3)
    return hparams

@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        defaults.target_space_id = model_hparams.cut
    def preprocess_example(self, example, mode, hparams):
        return {**example, "inputs": example["inputs"][: hparams.cut]}
"""
    )
    turned = problems.get("mine_rev")
    for overrides, cut, read, side in (("", 3, problem, "inputs"), ("cut=2", 2, turned, "targets")):
        hp = hparams.get("cutting", overrides)
        features, _ = next(iter(read.dataset("dev", make.data_dir, hp)))
        assert features[side].shape[1] == cut
        assert models.get("transformer", hp, problem, make.data_dir).target_space_id == cut


def test_get_hparams_has_the_fields_of_t2t(make, capsys):
    """For NAME_rev and NAME_copy, the features are exchanged or copied, as in T2T."""
    problem = make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def feature_encoders(self, data_dir):
        return {"inputs": text_encoder.ByteTextEncoder(), "targets": text_encoder.TextEncoder()}
    def hparams(self, defaults, model_hparams):
        defaults.modality = {name: modalities.ModalityType.SYMBOL for name in ("inputs", "targets")}
        defaults.vocab_size = {"inputs": 258, "targets": 30}
        defaults.input_space_id, defaults.target_space_id = 3, 7
"""
    )
    capsys.readouterr()
    for name, order, spaces in (
        ("mine", ("inputs", "targets"), (3, 7)),
        ("mine_rev", ("targets", "inputs"), (7, 3)),
        ("mine_copy", ("inputs", "inputs"), (3, 3)),
    ):
        turned = problems.get(name)
        encoders = turned.t2t.get_feature_encoders()
        found = turned.t2t.get_hparams()
        pairs = zip(("inputs", "targets"), order, strict=True)
        assert found.vocabulary == {to: encoders[source] for to, source in pairs}
        sizes = [{"inputs": 258, "targets": 30}[source] for source in order]
        assert [found.vocab_size[to] for to in ("inputs", "targets")] == sizes
        assert (found.input_space_id, found.target_space_id) == spaces
        assert found.was_reversed == (name == "mine_rev")
        assert found.was_copy == (name == "mine_copy")
        specs = turned.feature_specs(make.data_dir)  # uses the hparams before the exchange
        assert [specs[to].vocab_size for to in ("inputs", "targets")] == sizes
    assert problem.target_space_id == 7 and "vocabulary" not in capsys.readouterr().out
    cls = type(turned.t2t)
    cls.get_hparams = lambda self, model_hparams=None: super(cls, self).get_hparams(model_hparams)
    turned = problems.get("mine_rev")
    with pytest.raises(DataError, match="mine_rev .* get_hparams. Received: Mine"):
        turned.feature_specs(make.data_dir)


def test_hparams_changing_model_hparams_prints_note(make, capsys):
    make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        model_hparams.shared_embedding_and_softmax_weights = False
        model_hparams.batch_size = model_hparams.batch_size
"""
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "model_hparams" in line]
    assert "shared_embedding_and_softmax_weights" in line and "mine" in line


def test_error_in_hparams_precedes_records(make, tmp_path):
    with pytest.raises(AttributeError, match="nothing_there"):
        make(
            """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def hparams(self, defaults, model_hparams):
        defaults.target_space_id = self.nothing_there
"""
        )
    assert not list(tmp_path.rglob("mine-*"))


@pytest.mark.slow  # the default run tests fixed lengths
@pytest.mark.parametrize("name", ["mine", "mine_rev"])
def test_preprocess_example_can_sample_lengths(make, name):
    make(
        """
import tensorflow as tf
@registry.register_problem
class Mine(Base):
    def preprocess_example(self, example, mode, hparams):
        drawn = tf.random.uniform([], 1, 40, tf.int32)
        return {**example, "inputs": tf.repeat(example["inputs"][:1], drawn)}
"""
    )
    problem = problems.get(name)
    dataset = problem.dataset("dev", make.data_dir, hparams.get("transformer_tiny"))
    side = "inputs" if name == "mine" else "targets"
    assert len({np.count_nonzero(row[side]) for _ in range(9) for row, _ in dataset}) > 1


def test_max_length_of_package_limits_training(make):
    make(
        """
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for length in (3, 30):
            yield {"inputs": "a" * length, "targets": "b" * length}
    def max_length(self, model_hparams):
        return model_hparams.max_length // 4
"""
    )
    hp = hparams.get("transformer_tiny", "batch_size=64,max_length=40")
    for name in ("mine", "mine_rev"):
        [(features, _)] = problems.get(name).dataset("train", make.data_dir, hp)
        assert features["inputs"].shape == (1, 4)


_RANDOM = """
import os, random
@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    is_generate_per_split = False
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        numbers = list(range(40))
        random.Random(os.environ["MINE_SEED"]).shuffle(numbers)  # another order in each process
        for number in numbers:
            yield {"inputs": str(number), "targets": str(number)}
"""


def test_splits_of_two_passes_are_not_mixed(make, monkeypatch, tmp_path):
    monkeypatch.setenv("MINE_SEED", "1")
    problem = make(_RANDOM)
    data_dir = make.data_dir
    sets = [set(_texts(make, problem, split)) for split in problem.splits]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 40
    assert [len(found) for found in sets] == [20, 10, 10]
    dev = tmp_path / "data" / "mine-dev-00000-of-00001"
    before = dev.read_bytes()
    # After an interruption, ut_keras must make the missing files from the same samples.
    dev.unlink()
    with pytest.raises(DataError, match="mine .*one pass"):
        problem.generate_data(data_dir, str(tmp_path))
    assert not dev.exists()
    for path in (tmp_path / "data").glob("mine-*"):
        path.unlink()
    monkeypatch.setattr(tfrecords, "write", _only_train(tfrecords.write))
    with pytest.raises(DataError, match="broken off"):
        problem.generate_data(data_dir, str(tmp_path))
    monkeypatch.undo()
    monkeypatch.setenv("MINE_SEED", "2")
    with pytest.raises(DataError, match="mine .*another pass"):
        problem.generate_data(data_dir, str(tmp_path))
    monkeypatch.setenv("MINE_SEED", "1")
    problem.generate_data(data_dir, str(tmp_path))
    assert dev.read_bytes() == before
    assert not list((tmp_path / "data").rglob("datagen.mine-splits.json"))


def _only_train(write):
    def writing(examples, paths):
        if "-train-" not in paths[0]:
            raise DataError("broken off")
        return write(examples, paths)

    return writing


def test_adapted_problem_reads_data_of_t2t(make, tmp_path):
    """A package's problem replaces the built-in one and reads tests/testdata/t2t/data_dir."""
    shutil.copytree(_T2T_DATA, tmp_path / "data")
    problem = make(
        """
@registry.register_problem
class AlgorithmicReverseBinary40(problem.Problem):
    def hparams(self, defaults, model_hparams):
        defaults.input_modality = {"inputs": (registry.Modalities.SYMBOL, 4)}
        defaults.target_modality = (registry.Modalities.SYMBOL, 4)
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        raise AssertionError("the data are there")
""",
        name="algorithmic_reverse_binary40",
    )
    assert type(problem).__name__ == "Adapted"
    hp = hparams.get("transformer_tiny", "batch_size=4096")
    features, targets = next(iter(problem.dataset("dev", make.data_dir, hp)))
    for source, target in zip(features["inputs"].numpy(), targets.numpy(), strict=True):
        source, target = (text_encoder.cut_at_eos(row) for row in (source, target))
        assert source == target[::-1] and len(source) > 0


def test_package_encoder_is_requested_once_before_samples(make):
    """The requested encoder encodes the samples."""
    problem = make(
        """
class Shifted(text_encoder.ByteTextEncoder):
    def encode(self, s):
        return [i + 1 for i in super().encode(s)]

@registry.register_problem
class Mine(Base):
    asked = []
    def get_or_create_vocab(self, data_dir, tmp_dir, force_get=False):
        if not force_get:
            self.asked.append(tmp_dir)
            self.encoder = Shifted()
        return Shifted()
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        assert self.encoder
        yield from super().generate_samples(data_dir, tmp_dir, dataset_split)
""",
    )
    assert len(problem.t2t.asked) == 1 and problem.t2t.asked[0]


def test_encoder_without_vocab_size_generates_data_only(make):
    """The package copies T2T's `generate_encoded_samples`, including the calls of MLPerf's log."""
    problem = make(
        """
from tensor2tensor.utils import mlperf_log

class Letters(text_encoder.TextEncoder):
    def encode(self, s):
        return [2 + ord(letter) % 50 for letter in s]

@registry.register_problem
class Mine(Base):
    vocab_type = text_problems.VocabType.CHARACTER
    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        mlperf_log.transformer_print(key=mlperf_log.PREPROC_TOKENIZE_TRAINING)
        return super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
    def feature_encoders(self, data_dir):
        return {"inputs": Letters(), "targets": Letters()}
"""
    )
    assert make.records(problem, "train")
    with pytest.raises(DataError, match="Letters .*vocab_size"):
        problem.feature_specs(make.data_dir)


_READS_ALL = """
import os

@registry.register_problem
class Mine(text_problems.Text2TextProblem):
    approx_vocab_size = 2**8
    is_generate_per_split = {per_split}
    dataset_splits = [{{"split": "train", "shards": 9}}, {{"split": "eval", "shards": 1}}]

    def lines(self, *folders):
        for folder in folders:
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not name.startswith(("vocab.", "mine-")):
                    with open(path) as file:
                        yield from file

    def generate_samples(self, data_dir, tmp_dir, *split):
        for line in self.lines(data_dir, tmp_dir):
            yield {{"inputs": line.strip(), "targets": line.strip()}}
"""


@pytest.mark.parametrize("per_split", [True, False])
def test_package_reading_every_file_finds_no_files_of_ut_keras(make, tmp_path, per_split):
    """The package finds only T2T's files, even while another process writes to the folder."""
    lines = [f"text {number}" for number in range(120)]
    for folder in ("data", "tmp"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "raw.txt").write_text("\n".join(lines))
    problem = make(_READS_ALL.format(per_split=per_split), generated=False)
    with (
        path_lock.held(str(tmp_path / "data" / "raw"), ""),
        whole_file.temporary_folder(str(tmp_path / "tmp" / "raw")),
    ):
        counts = problem.generate_data(str(tmp_path / "data"), str(tmp_path / "tmp"))
    assert sum(counts.values()) == (480 if per_split else 240)
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    for split in problem.splits:
        found = {encoder.decode(record["inputs"][:-1]) for record in make.records(problem, split)}
        assert found <= {*lines}
    assert not any("keras" in entry for entry in encoder.subtokens)
    left = [path for path in (tmp_path / "data").iterdir() if path.is_file()]
    names = {path.name for path in left if not path.name.startswith("mine-")}
    assert names == {"raw.txt", problem.t2t.vocab_filename}


_FIXED = """
import tensorflow as tf

@registry.register_problem
class Mine(Base):
    batch_size_means_tokens = {means_tokens}
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(10):
            yield {{"inputs": "ab", "targets": "b" * (number % 3 + 1)}}
    vocab_type = text_problems.VocabType.CHARACTER
"""
_PREPROCESS = """
    def preprocess_example(self, example, mode, hparams):
        for name in ("inputs", "targets"):
            ids = tf.pad(example[name], [[0, 6 - tf.shape(example[name])[0]]])
            example[name] = tf.ensure_shape(ids, [6]) if {is_fixed} else ids
        return example
"""
_READING_SPEC = """
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({{"inputs": "abcde", "targets": "edcba"}} for _ in range(10))
    def example_reading_spec(self):
        field = tf.FixedLenFeature([6], tf.int64)
        return {{"inputs": field, "targets": field}}, None
"""


@pytest.mark.parametrize(
    "source, means_tokens, is_fixed, sizes",
    [
        (_PREPROCESS, False, True, [3, 7]),
        (_READING_SPEC, False, True, [3, 7]),
        (_PREPROCESS, True, True, [1] * 10),
        (_PREPROCESS, False, False, [1] * 10),
    ],
)
def test_batch_size_counts_examples_of_fixed_shapes(make, source, means_tokens, is_fixed, sizes):
    """As in T2T, no example is too long or too short if batch_size counts examples."""
    code = (_FIXED + source).format(means_tokens=means_tokens, is_fixed=is_fixed)
    problem = make(code)
    limits = ",max_length=4,min_length=2" if len(sizes) == 2 else ""
    hp = hparams.get("transformer_tiny", f"batch_size=7{limits}")
    for split in ("train", "dev"):
        batches = [targets for _, targets in problem.dataset(split, make.data_dir, hp)]
        assert sorted(batch.shape[0] for batch in batches) == sizes
        assert {batch.shape[1] for batch in batches} == {6}


def test_error_in_preprocess_example_is_reported_with_fixed_shapes(make):
    problem = make(
        (_FIXED + _PREPROCESS)
        .format(means_tokens=False, is_fixed=True)
        .replace("return example", "pass")
    )
    hp = hparams.get("transformer_tiny", "batch_size=7")
    with pytest.raises(DataError, match="preprocess_example of mine must return a dict"):
        problem.dataset("train", make.data_dir, hp)


def test_index_of_lengths_depends_on_code_and_flags_of_the_package(make, tmp_path):
    """A saved index of lengths must not be used if a function or constant has changed."""
    problem = make(
        """
import tensorflow as tf
tf.flags.DEFINE_integer("most_ids_of_test", 3, "")
LONGEST = 4

def cut(ids):
    return ids[:min(LONGEST, tf.flags.FLAGS.most_ids_of_test)]

@registry.register_problem
class Mine(Base):
    def preprocess_example(self, example, mode, hparams):
        example["inputs"] = cut(example["inputs"])
        return example
""",
        generated=False,
    ).with_hparams(hparams.get("transformer_tiny"), "train")
    keys = [problem.preprocess_key, problem.preprocess_key]
    assert keys[0] == keys[1]
    flags.FLAGS.most_ids_of_test = 2
    keys.append(problem.preprocess_key)
    source = tmp_path / "package" / "__init__.py"
    source.write_text(source.read_text().replace("LONGEST = 4", "LONGEST = 5"))
    keys.append(problem.preprocess_key)
    delattr(flags.FLAGS, "most_ids_of_test")
    assert len({*keys}) == 3
