"""Tests of training on several problems with T2T's module multi_problem."""

import json
import re

import numpy as np
import pytest

import trainer
from ut_keras import hparams, problems
from ut_keras.bin import datagen, decoder, decoder_setup, exporter
from ut_keras.data import tfrecords
from ut_keras.data.reading import example_order
from ut_keras.errors import DataError
from ut_keras.inference import decode_job
from ut_keras.t2t import multi_problem

_PACKAGE = """
from tensor2tensor.data_generators import multi_problem, problem, text_problems
from tensor2tensor.utils import registry

class _Splits:
  is_generate_per_split = True
  dataset_splits = [
      {"split": problem.DatasetSplit.TRAIN, "shards": 2},
      {"split": problem.DatasetSplit.EVAL, "shards": 1},
  ]

@registry.register_problem
class Tales(_Splits, text_problems.Text2SelfProblem):
  @property
  def approx_vocab_size(self):
    return 2**8
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for number in range(40 if dataset_split == "train" else 4):
      yield {"targets": "the %s tale, number %d." % (dataset_split, number)}

class _Shared(_Splits):
  @property
  def use_vocab_from_other_problem(self):
    return Tales()

@registry.register_problem
class Reviews(_Shared, text_problems.Text2ClassProblem):
  @property
  def num_classes(self):
    return 2
  def class_labels(self, data_dir):
    return ["bad", "very good"]
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for number in range(20 if dataset_split == "train" else 3):
      yield {"inputs": "the tale %d" % number, "label": number % 2}

@registry.register_problem
class Titles(_Shared, text_problems.Text2TextProblem):
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for number in range(10 if dataset_split == "train" else 2):
      yield {"inputs": "the tale, number %d" % number, "targets": "tale %d" % number}

@registry.register_problem
class AllOfThem(multi_problem.MultiProblem):
  def __init__(self, was_reversed=False, was_copy=False):
    super(AllOfThem, self).__init__(was_reversed, was_copy)
    self.task_list.append(Tales())
    self.task_list.append(Reviews())
    self.task_list.append(Titles())
  @property
  def vocab_type(self):
    return text_problems.VocabType.SUBWORD
"""
_CUTS = ("multiproblem_max_input_length", "multiproblem_max_target_length")
_PRETRAIN = "multiproblem_schedule_max_examples=150,multiproblem_reweight_label_loss=True"
_SMALL = "batch_size=128,hidden_size=16,filter_size=16,num_heads=2,num_hidden_layers=1"


@pytest.fixture
def package(load):
    return load(_PACKAGE)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Return a folder that the first test fills and that no later test changes."""
    return tmp_path_factory.mktemp("generated")


@pytest.fixture
def made(package, generated, tmp_path):
    """Return (problem, folder of its data)."""
    problem = problems.get("all_of_them")
    if not any(generated.iterdir()):
        problem.generate_data(str(generated), str(tmp_path / "tmp"))
    return problem, str(generated)


def _hp(changes=""):
    return hparams.get("transformer_tiny", f"{_SMALL},{changes}".rstrip(","))


def _rows(dataset):
    return [
        np.trim_zeros(row, "b").tolist() for _, targets in dataset for row in np.asarray(targets)
    ]


def test_task_of_returns_problem_of_id(made):
    problem, data_dir = made
    size = problem.feature_encoders(data_dir)["targets"].vocab_size
    ids = [task.t2t.task_id for task in problem.tasks]
    assert [problem.task_of(number, size) for number in ids] == problem.tasks
    assert problem.task_of(ids[0] - 1, size) is None and problem.task_of(size - 1, size) is None
    assert decoder_setup.target_language(problem, problem.feature_specs(data_dir), ids[1]) == ""


def test_first_problem_with_own_encode_raises(made, monkeypatch):
    """The joint vocabulary would ignore the override."""
    problem, data_dir = made
    encoder = problem.tasks[0].feature_encoders(data_dir)["targets"]

    class Own(type(encoder)):
        def encode(self, text):
            return super().encode(text.lower())

    own = {"targets": Own(subtokens=encoder.subtokens)}
    monkeypatch.setattr(problem.tasks[0], "feature_encoders", lambda data_dir: own)
    problem._encoders.clear()
    with pytest.raises(DataError, match="without an override of encode .*Received: Own"):
        problem.feature_encoders(data_dir)
    problem._encoders.clear()


def _records(data_dir, name, split):
    paths = tfrecords.find(data_dir, name, split)
    return [record for path in paths for record in tfrecords.read(path)]


def _tasks(rows, problem):
    """Return the number of examples of each problem."""
    ids = [task.t2t.task_id for task in problem.tasks]
    return [sum(task in row for row in rows) for task in ids]


# Each entry is (problem, record, targets without limits, targets with limits of 2 inputs and 1
# target). The targets are results of T2T's normalize_example_nlp with a vocabulary of 82 entries.
_OF_T2T = [
    ("tales", {"targets": [5, 6, 1]}, [82, 5, 6, 1], [82, 5, 6, 1]),
    ("reviews", {"inputs": [5, 6, 1], "targets": [1]}, [5, 6, 83, 86], [5, 6, 83, 86]),
    ("reviews", {"inputs": [5, 6, 7, 1], "targets": [0]}, [5, 6, 7, 83, 85], [5, 6, 7, 83, 85]),
    (
        "titles",
        {"inputs": [5, 6, 7, 1], "targets": [8, 9, 1]},
        [5, 6, 7, 84, 8, 9, 1],
        [5, 6, 84, 8],
    ),
]


def test_joint_examples_match_t2t(package):
    t2t = problems.get("all_of_them").t2t
    t2t.update_task_ids(82)
    names, records, whole, cut = zip(*_OF_T2T, strict=True)
    files = [f"some/folder/{name}-train-00000-of-00002" for name in names]
    parts = [*map(tfrecords.serialize, records)]
    for expected, most in ((whole, (-1, -1)), (cut, (2, 1))):
        hp = _hp().override(dict(zip(_CUTS, most, strict=True)))
        made = multi_problem.JointExampleParser(t2t, hp).parse(files, parts)
        assert made["targets"].to_list() == list(expected)
    short = multi_problem.JointExampleParser(t2t, _hp("multiproblem_fixed_train_length=3")).parse(
        files, parts
    )
    assert short["targets"].to_list() == [row[:3] for row in whole]
    # T2T's problems truncate their own features, before the inputs lose their last id.
    hp = _hp("max_input_seq_length=3,max_target_seq_length=1")
    made = multi_problem.JointExampleParser(t2t, hp).parse(files, parts)
    assert made["targets"].to_list() == [[82, 5], [5, 6, 83, 86], [5, 6, 83, 85], [5, 6, 84, 8]]


def test_target_weights_match_t2t(package):
    """The reference is T2T's `aggregate_task_losses`, where the loss of a token is its id."""
    t2t = problems.get("all_of_them").t2t
    t2t.update_task_ids(82)
    names, records, rows, _ = zip(*_OF_T2T, strict=True)
    files = [f"some/folder/{name}-train-00000-of-00002" for name in names]
    hp = _hp("multiproblem_reweight_label_loss=True,multiproblem_label_weight=0.9")
    parts = [*map(tfrecords.serialize, records)]
    made = multi_problem.JointExampleParser(t2t, hp, training=True).parse(files, parts)
    weights = made["weights"].to_list()
    loss = sum(np.dot(row, own) for row, own in zip(rows, weights, strict=True))
    loss /= sum(map(sum, weights))

    tale = np.mean(rows[0])
    label, before = np.mean([86, 85]), np.mean([*rows[1][:3], *rows[2][:4]])
    title, text = np.mean([8, 9, 1]), np.mean([5, 6, 7, 84])
    expected = tale + 0.9 * label + 0.1 * before + 0.9 * title + 0.1 * text
    assert loss == pytest.approx(expected / 3, rel=1e-6)
    assert set(multi_problem.JointExampleParser(t2t, hp).parse(files, parts)) == {
        "targets"
    }  # evaluation has no weights


def test_dataset_has_examples_of_every_problem(made):
    problem, data_dir = made
    # The test must read this dataset first. Even if only one problem is read, the vocabulary has
    # entries for all problems.
    only = _rows(problem.dataset("dev", data_dir, _hp("multiproblem_target_eval_only=True")))
    assert _tasks(only, problem) == [0, 3, 0]

    vocabulary = problem.tasks[0].feature_encoders(data_dir)["targets"]
    size = vocabulary.vocab_size
    tale, review, title = size, size + 1, size + 2
    # The size is the sum of the subwords, one id for each of 3 problems, and 2 class labels.
    assert problem.feature_specs(data_dir)["targets"].vocab_size == size + 3 + 2
    assert [task.t2t.task_id for task in problem.tasks] == [tale, review, title]

    expected = [[tale, *record["targets"]] for record in _records(data_dir, "tales", "dev")]
    for record in _records(data_dir, "reviews", "dev"):
        assert record["inputs"][-1] == 1 and len(record["targets"]) == 1
        expected.append([*record["inputs"][:-1], review, size + 3 + record["targets"][0]])
    for record in _records(data_dir, "titles", "dev"):
        assert record["inputs"][-1] == record["targets"][-1] == 1
        expected.append([*record["inputs"][:-1], title, *record["targets"]])
    rows = _rows(problem.dataset("dev", data_dir, _hp()))
    assert sorted(rows) == sorted(expected)
    assert [*vocabulary.encode("the tale 1"), review, size + 4] in expected
    assert [*vocabulary.encode("the tale, number 1"), title, *vocabulary.encode("tale 1"), 1] in (
        expected
    )
    # The limits apply to the targets of each problem, not to the joint examples.
    short = _rows(problem.dataset("dev", data_dir, _hp("max_target_seq_length=1")))
    assert _tasks(short, problem) == _tasks(rows, problem)
    assert all(row[-2] in (tale, review, title) for row in short)
    # As in T2T, the first batches of an evaluation have examples of each problem.
    few = _hp("use_fixed_batch_size=True").override("batch_size=2")
    assert _tasks(_rows(problem.dataset("dev", data_dir, few).take(2)), problem) == [2, 1, 1]


def test_multi_problem_writes_files_and_shares_vocabulary(made, generated):
    problem, data_dir = made
    names = sorted(path.name for path in generated.iterdir())
    assert [name for name in names if name.startswith("vocab.")] == ["vocab.tales.256.subwords"]
    assert not [name for name in names if "all_of_them" in name]
    assert problem.splits == ("train", "dev")
    encoder = problem.feature_encoders(data_dir)["targets"]
    size = encoder.vocab_size
    tales = problem.tasks[0].feature_encoders(data_dir)["targets"]
    for text in ("very good", "_good_ tale", "bad, and\nworse"):
        assert encoder.encode(text) == tales.encode(text)
    assert encoder.decode([*tales.encode("the tale"), size - 1]) == "the tale very good"
    assert encoder.decode([size - 5, size - 2]) == "bad"
    assert problem.generate_data(data_dir) == {}


@pytest.mark.parametrize(
    "changes, shares",
    [
        ("", [0.5, 0.25, 0.25]),
        pytest.param(
            "multiproblem_schedule_threshold=0.2", [0.8, 0.1, 0.1], marks=pytest.mark.slow
        ),
        ("multiproblem_per_task_threshold='5,1,1'", [5 / 7, 1 / 7, 1 / 7]),
        (
            "multiproblem_mixing_schedule=pretrain,multiproblem_schedule_max_examples=0",
            [0, 0.5, 0.5],
        ),
    ],
)
def test_pass_has_shares_of_hparams(made, changes, shares):
    problem, data_dir = made
    passes = problem.training_batches(data_dir, _hp(changes), lambda number: number)
    size = passes.num_batches
    batches = list(passes.batches_from().take(2 * size))
    first, second = _rows(batches[:size]), _rows(batches[size:])
    assert _tasks(first, problem) == pytest.approx([70 * share for share in shares], abs=6)
    assert _tasks(first, problem) == _tasks(second, problem)
    assert first != second
    # Reading can continue at any position.
    later = _rows(passes.batches_from(1, 2).take(size - 2))
    assert later == second[-len(later) :]


@pytest.mark.slow  # the test of constant shares is not slow
@pytest.mark.parametrize(
    "schedule, others",
    [
        ("pretrain", lambda examples: examples > 245),
        ("exponential", lambda examples: 0.5 * 1e-4 ** np.maximum(0, 1 - examples / 245)),
    ],
)
def test_shares_change_with_schedule(made, schedule, others):
    problem, data_dir = made
    changes = f"multiproblem_mixing_schedule={schedule},multiproblem_schedule_max_examples=245"
    passes = problem.training_batches(data_dir, _hp(changes), lambda number: number)
    size = passes.num_batches
    rows = [_rows(passes.batches_from(number).take(size)) for number in range(6)]
    tales = [_tasks(some, problem)[0] / len(some) for some in rows]
    course = [np.linspace(70 * number, 70 * (number + 1)) for number in range(6)]
    assert tales == pytest.approx([1 - np.mean(others(some)) for some in course], abs=0.1)
    # The shares change in the middle of an epoch of 70 examples, in the same way in every process.
    again = problem.training_batches(data_dir, _hp(changes), lambda number: number)
    later = _rows(again.batches_from(3, 2).take(size - 2))
    assert later == rows[3][-len(later) :]
    if schedule == "pretrain":
        half = len(rows[3]) // 3
        assert _tasks(rows[3][:half], problem)[1:] == [0, 0]
        assert _tasks(rows[3][-half:], problem)[0] == 0
    both = [_hp(changes), _hp(changes.replace("245", "300"))]
    prints = [problem.training_batches(data_dir, hp, int).fingerprint for hp in both]
    assert prints[0] != prints[1]


def test_mixture_uses_every_example():
    lengths = np.array([3] * 50 + [9] * 3 + [4] * 5)
    groups = np.array([0] * 53 + [1] * 5)
    mixture = example_order.Mixture([0.25, 0.75])
    order = example_order.MixedOrder(groups, mixture, lengths, [8], [4, 4])
    epochs = [order.epoch([7, number]) for number in range(60)]
    assert {len(epoch) for epoch in epochs} == {order.num_batches}
    assert set(np.concatenate([epoch.order for epoch in epochs])) == set(range(58))
    counts = np.bincount(epochs[0].order, minlength=58)
    assert counts[:53].max() == 1 and set(counts[53:]) <= {8, 9}
    assert order.fingerprint([[1]]) != example_order.MixedOrder(
        groups, example_order.Mixture([0.3, 0.7]), lengths, [8], [4, 4]
    ).fingerprint([[1]])
    with pytest.raises(DataError, match="must have examples that are not too long"):
        example_order.MixedOrder(groups * 0, mixture, lengths, [8], [4, 4])


@pytest.mark.slow
def test_multi_problem_generates_trains_and_decodes(
    package, registries, tmp_path, capsys, monkeypatch
):
    flags = [
        f"--t2t_usr_dir={package}",
        "--problem=all_of_them",
        f"--data_dir={tmp_path}/data",
        f"--tmp_dir={tmp_path}/tmp",
    ]
    assert datagen.main([*flags, "--inspect=1"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name}, dev\n" in out for name in ("tales", "reviews", "titles"))

    def train(run, steps):
        words = [f"--output_dir={tmp_path}/{run}", f"--train_steps={steps}", "--random_seed=5"]
        hparams = f"--hparams={_SMALL},{_PRETRAIN}"
        chosen = ["--model=transformer", "--hparams_set=transformer_tall", hparams]
        assert trainer.main([*flags, *words, *chosen, "--eval_steps=0"]) == 0
        return capsys.readouterr().out

    outputs = [train("stopped", 15), train("stopped", 40), train("whole", 40)]
    results = [re.findall(r"evaluation at step 40: (.*)", text)[0] for text in outputs[1:]]
    assert results[0] == results[1]  # the resumed run has the same metrics
    names = {word.partition("=")[0] for word in results[0].split()}
    wanted = {f"{m}_{t}" for m in ("accuracy", "neg_log_perplexity") for t in ("tales", "reviews")}
    assert wanted | {"accuracy", "accuracy_titles"} <= names

    (tmp_path / "lines.txt").write_text("the tale 3\n\nthe tale 4\n")
    run = [f"--output_dir={tmp_path}/whole", f"--t2t_usr_dir={package}"]
    vocab_size = json.loads((tmp_path / "whole/features.json").read_text())["features"]["targets"][
        "vocab_size"
    ]
    decoding = f"--decode_hparams=beam_size=1,extra_length=3,multiproblem_task_id={vocab_size - 4}"
    files = [f"--decode_from_file={tmp_path}/lines.txt", f"--decode_to_file={tmp_path}/out.txt"]
    assert decoder.main([*run, decoding, *files]) == 0
    lines = (tmp_path / "out.txt").read_text().split("\n")
    assert len(lines) == 4 and lines[1] == ""
    shown = []
    with monkeypatch.context() as patched:
        patched.setattr(decode_job, "decode", lambda _, rows: shown.extend(rows) or [[""]] * 3)
        patched.setattr(decoder, "_finish", lambda *_: None)
        assert decoder.main([*run, decoding + ",max_input_size=3", *files]) == 0
    assert [len(row) for row in shown] == [3, 0, 3]
    assert {row[-1] for row in shown if row} == {vocab_size - 4}  # every input ends with its task
    assert exporter.main([*run, f"--export_dir={tmp_path}/export"]) == 0
    capsys.readouterr()
    for bad in (
        [f"--decode_hparams=multiproblem_task_id={vocab_size}", *files],
        ["--decode_hparams=multiproblem_task_id=3", "--decode_interactive"],
    ):
        assert decoder.main([*run, *bad]) != 0
        assert "multiproblem_task_id requires --decode_from_file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, message",
    [
        ("multiproblem_per_task_threshold='1,2'", "multiproblem_per_task_threshold .*3 weights"),
        ("multiproblem_per_task_threshold='1,-2,1'", "multiproblem_per_task_threshold .*3 weights"),
        ("multiproblem_per_task_threshold='0,0,0'", "multiproblem_per_task_threshold .*3 weights"),
    ],
)
def test_invalid_threshold_raises(made, changes, message):
    problem, data_dir = made
    for rejected in (lambda hp: problem.dataset("train", data_dir, hp), problem.with_hparams):
        with pytest.raises(DataError, match=message):
            rejected(_hp(changes))


def test_invalid_threshold_raises_before_data(package, registries, tmp_path, capsys):
    words = [
        f"--t2t_usr_dir={package}",
        "--problem=all_of_them",
        "--generate_data",
        *("--model=transformer", "--hparams_set=transformer_tiny"),
        *("--train_steps=1", "--hparams=multiproblem_per_task_threshold='1,2'"),
        *(f"--{name}_dir={tmp_path / name}" for name in ("data", "tmp", "output")),
    ]
    assert trainer.main(words) == 2
    assert "multiproblem_per_task_threshold must be 3 weights" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "body, message",
    [
        ("self.task_list = []", "a Text2SelfProblem .*Received: none"),
        ("self.task_list = [Tales()]", "a Text2SelfProblem .*Received: Tales"),
        ("self.task_list = [Titles(), Tales()]", "Received: Titles, Tales"),
        (
            "self.task_list = [Tales(), problem.Problem()]",
            "text_problems.* Received: Tales, Problem",
        ),
        ("self.task_list = [Tales(), Tales()]", "different .*Received: Tales, Tales"),
        (
            "self.task_list = [Tales(), Other()]",
            "use_vocab_from_other_problem.* Received: Tales, Other",
        ),
        (
            "self.task_list = [Tales(), Bytes()]",
            "vocab_type.* Received: Tales, Bytes",
        ),
        ("self.task_list = [Tales(), Packed()]", "packed. Received: Tales, Packed"),
        ("self.task_list = [Tales(), Shown()]", "preprocess_example.* Received: Tales, Shown"),
    ],
)
def test_invalid_task_list_raises(load, body, message):
    load(
        f"""{_PACKAGE}
@registry.register_problem
class Other(_Splits, text_problems.Text2TextProblem):
  pass
@registry.register_problem
class Bytes(_Splits, text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
@registry.register_problem
class Packed(_Shared, text_problems.Text2TextProblem):
  packed_length = 32
@registry.register_problem
class Shown(_Shared, text_problems.Text2TextProblem):
  def preprocess_example(self, example, mode, hparams):
    return example
@registry.register_problem
class Wrong(multi_problem.MultiProblem):
  def __init__(self, was_reversed=False, was_copy=False):
    super(Wrong, self).__init__(was_reversed, was_copy)
    {body}
"""
    )
    with pytest.raises(DataError, match=message):
        problems.get("wrong")


@pytest.mark.parametrize("method", ["generate_data", "get_hparams", "max_length"])
def test_override_that_is_not_called_raises(load, method):
    arguments = {"generate_data": "data_dir, tmp_dir, task_id=-1"}.get(method, "model_hparams=None")
    load(f"{_PACKAGE}\n  def {method}(self, {arguments}): pass\n")
    with pytest.raises(DataError, match=f"AllOfThem must not override {method},"):
        problems.get("all_of_them")


def test_task_list_can_contain_t2t_problems(load):
    load(
        """
from tensor2tensor.data_generators import imdb, lm1b, multi_problem
from tensor2tensor.utils import registry

@registry.register_problem
class Reviews(imdb.SentimentIMDB):
  @property
  def use_vocab_from_other_problem(self):
    return lm1b.LanguagemodelLm1b32k()

@registry.register_problem
class LanguagemodelReviews(multi_problem.MultiProblem):
  def __init__(self, was_reversed=False, was_copy=False):
    super(LanguagemodelReviews, self).__init__(was_reversed, was_copy)
    self.task_list = [lm1b.LanguagemodelLm1b32k(), Reviews()]
"""
    )
    problem = problems.get("languagemodel_reviews")
    assert [task.name for task in problem.tasks] == ["languagemodel_lm1b32k", "reviews"]
    assert problem.splits == ("train", "dev")
