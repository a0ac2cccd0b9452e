"""Tests of T2T's text problems that have a context or cut files into parts."""

import os
import types

import pytest

from ut_keras import hparams, problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text import printed_notes

_CONTEXT = """
@registry.register_problem
class Mine(text_problems.QuestionAndContext2TextProblem):
    approx_vocab_size = 2**8
    is_generate_per_split = True
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(3):
            yield {"inputs": f"Who {i}?", "context": f"A text of {i}.", "targets": f"{i}"}
"""
_CHOPPED = """
@registry.register_problem
class Mine(text_problems.ChoppedTextProblem):
    vocab_type = text_problems.VocabType.CHARACTER
    sequence_length = 10
    dataset_splits = [{{"split": "train", "shards": 2}}, {{"split": "eval", "shards": 1}}]
    def train_text_filepaths(self, tmp_dir):
        return [r"{folder}/a.txt"]
    dev_text_filepaths = train_text_filepaths
"""


def test_preprocess_example_adds_context_to_inputs(make):
    problem = make(
        _CONTEXT
        + """
    def preprocess_example(self, example, mode, hparams):
        import tensorflow as tf
        separator = tf.constant([self.QUESTION_SEPARATOR_ID], example["inputs"].dtype)
        example["inputs"] = tf.concat([example["inputs"], separator, example["context"]], 0)
        return example
    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        del defaults.modality["context"]
        del defaults.vocab_size["context"]
"""
    )
    hp = hparams.get("transformer_tiny", "batch_size=64")
    features, _ = next(iter(problem.dataset("dev", make.data_dir, hp)))
    encoder = problem.feature_encoders(make.data_dir)["inputs"]
    row = features["inputs"].numpy()[0].tolist()
    question, story = (
        encoder.decode(ids) for ids in (row[: row.index(2)], row[row.index(2) + 1 :])
    )
    assert question == "Who 0?<EOS>" and story.startswith("A text of 0.<EOS>")


def test_context_has_the_encoder_of_feature_encoders(make):
    problem = make(
        _CONTEXT.replace("Mine", "Own")
        + """
    def feature_encoders(self, data_dir):
        return {**super().feature_encoders(data_dir), "context": text_encoder.ByteTextEncoder()}
""",
        name="own",
    )
    record = make.records(problem, "dev")[0]
    assert bytes(i - 2 for i in record["context"][:-1]).startswith(b"A text of ")
    encoder = problem.feature_encoders(make.data_dir)["inputs"]
    assert encoder.decode(record["inputs"]).startswith("Who ")


def test_chopped_text_that_is_not_utf8_raises(make, tmp_path):
    (tmp_path / "a.txt").write_bytes("déjà vu".encode("latin-1"))
    with pytest.raises(DataError, match=r"Text must be UTF-8. Received: \S*a.txt"):
        make(_CHOPPED.format(folder=tmp_path))


def test_distributed_problem_reads_the_files_of_each_split(make):
    problem = make(
        """
@registry.register_problem
class Spread(text_problems.DistributedText2TextProblem):
    vocab_type = text_problems.VocabType.CHARACTER
    def input_files(self, dataset_split="train"):
        return [f"{dataset_split} {number}" for number in range(100)]
    def generate_samples(self, data_dir, tmp_dir, dataset_split, input_files):
        for name in input_files:
            yield {"inputs": name, "targets": dataset_split}
""",
        name="spread",
    )
    assert problem.num_shards("train") == 100 and len(make.records(problem, "dev")) == 100
    problem.t2t.num_output_shards = {"train": 0, "eval": 3}  # as in older versions of T2T
    assert problem.t2t.dataset_splits == [{"split": "eval", "shards": 3}]


def test_tokens_of_generate_vocab_are_used(make, tmp_path):
    (tmp_path / "tmp").mkdir()
    for name in ("inputs.train", "targets.train", "inputs.eval", "targets.eval"):
        (tmp_path / "tmp" / f"{name}.txt").write_text("b a\n")
    problem = make(
        """
@registry.register_problem
class Words(text_problems.Text2textTmpdirTokens):
    def _generate_vocab(self, tmp_dir):
        return text_encoder.TokenTextEncoder(None, vocab_list=["a", "b", self.oov_token])
""",
        name="words",
    )
    assert make.records(problem, "dev")[0]["inputs"] == [3, 2, 1]


def test_unused_context_is_dropped_with_note(make, capsys):
    problem = make(_CONTEXT)
    assert set(problem.feature_specs(make.data_dir)) == {"inputs", "targets"}
    assert "the feature 'context' of mine" in capsys.readouterr().out
    hp = hparams.get("transformer_tiny", "batch_size=64")
    features, _ = next(iter(problem.dataset("dev", make.data_dir, hp)))
    assert set(features) == {"inputs", "targets"}


@pytest.mark.parametrize(
    "body, is_noted",
    [
        ("example['inputs'] = tf.concat([example['inputs'], example['context']], 0)", False),
        *(
            pytest.param(body, False, marks=pytest.mark.slow)
            for body in (
                "example['inputs'] = tf.concat([example[n] for n in ('context', 'inputs')], 0)",
                "example = {**example, 'inputs': example.pop('context')}",
            )
        ),
        ("example = dict(example)", False),  # the package may use the copy, so there is no note
        ("example['inputs'] = example['inputs'][:3]", True),
        ("pass", True),
    ],
)
def test_note_on_context_only_if_preprocess_example_ignores_it(
    make, capsys, monkeypatch, body, is_noted
):
    monkeypatch.setattr(printed_notes, "_printed", set())
    problem = make(
        _CONTEXT
        + f"""
    def preprocess_example(self, example, mode, hparams):
        import tensorflow as tf
        {body}
        return example
"""
    )
    hp = hparams.get("transformer_tiny", "batch_size=64")
    next(iter(problem.dataset("dev", make.data_dir, hp)))
    message = "the feature 'context' of mine"
    assert (message in capsys.readouterr().out) == is_noted


def test_chopped_text_matches_t2t(make, tmp_path):
    for name, text in {"a": "one two three ", "b": "four five ", "c": "one two three four"}.items():
        (tmp_path / f"{name}.txt").write_text(text * 3)
    problem = make(f'''
@registry.register_problem
class Mine(text_problems.ChoppedTextProblem):
    vocab_type = text_problems.VocabType.CHARACTER
    sequence_length = 10
    @property
    def is_generate_per_split(self):
        return False
    @property
    def dataset_splits(self):
        return [{{"split": "train", "shards": 2}}, {{"split": "eval", "shards": 1}}]
    @property
    def max_dev_chars(self):
        return 25
    def train_text_filepaths(self, tmp_dir):
        return [r"{tmp_path}/" + name for name in ("a.txt", "b.txt", "c.txt")]
    def dev_text_filepaths(self, tmp_dir):
        return [r"{tmp_path}/c.txt"]
''')
    encoder = problem.feature_encoders(make.data_dir)["targets"]
    shards = [
        sorted(
            encoder.decode([i for i in record["targets"] if i]) for record in tfrecords.read(path)
        )
        for split in ("train", "dev")
        for path in tfrecords.find(make.data_dir, "mine", split)
    ]
    texts = ("one two three " * 3 + "one two three four" * 3, "four five " * 3)
    dev = ("one two three four" * 3)[:25]
    assert shards == [
        sorted(text[at : at + 10] for at in range(0, len(text), 10)) for text in (*texts, dev)
    ]
    records = make.records(problem, "train")
    assert {len(record["targets"]) for record in records} == {10}  # short records are padded
    # Although max_length is 8, the problem keeps its length of 10.
    hp = hparams.get("transformer_tiny", "batch_size=40,max_length=8")
    features, targets = next(iter(problem.dataset("train", make.data_dir, hp)))
    assert targets.shape[1] == 10 and "inputs" not in features


def test_task_without_texts_writes_empty_file(make, tmp_path):
    (tmp_path / "a.txt").write_text("one two three " * 20)
    problem = make(_CHOPPED.format(folder=tmp_path))
    assert len(make.records(problem, "train")) == 28
    hp = hparams.get("transformer_tiny", "batch_size=40")
    assert len(problem.dataset("train", make.data_dir, hp)) == 7


def test_sentencepiece_vocabulary_prints_notes(load, tmp_path, capsys):
    """T2T reads the lines of a sentencepiece vocabulary as words."""
    load(
        """
        from tensor2tensor.data_generators import problem, text_problems
        from tensor2tensor.utils import registry

        @registry.register_problem
        class Pieces(text_problems.Text2TextProblem):
            is_generate_per_split = True
            vocab_type = text_problems.VocabType.TOKEN
            oov_token = "<UNK>"
            vocab_filename = "pieces.txt"
            dataset_splits = [{"split": "train", "shards": 1}, {"split": "eval", "shards": 1}]

            def generate_samples(self, data_dir, tmp_dir, dataset_split):
                for _ in range(5):
                    yield {"inputs": "the cat", "targets": "a mat"}
        """
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pieces.txt").write_text("<pad>\n<EOS>\n<UNK>\n\u2581the\t-1.5\na\t-2\n")
    problems.get("pieces").generate_data(str(tmp_path / "data"), str(tmp_path))
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2 and all("pieces.txt" in note for note in notes)
    assert "2 lines" in notes[0] and "'\u2581the\\t-1.5'" in notes[0] and "100%" in notes[1]


_ONE_DICT = """
import os
@registry.register_problem
class Mine(Base):
    {attributes}
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write("\\n".join(["<pad>", "<EOS>", "UNK", *"abcdef"]))
        sample = dict()
        for word in "abcdef":
            sample["inputs"] = sample["targets"] = word
            yield sample
"""
_OWN_IDS = """def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        next(self.generate_samples(data_dir, tmp_dir, dataset_split))  # writes the vocabulary
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        return text_problems.text2text_generate_encoded(samples, encoder)
"""


@pytest.mark.parametrize("more", ["oov_token = 'UNK'", "", _OWN_IDS])
def test_package_may_yield_one_dict_with_new_values(make, more):
    """T2T encodes each sample before it requests the next one."""
    problem = make(_ONE_DICT.format(attributes=f"vocab_type = 'tokens'\n    {more}"))
    for split in ("train", "dev"):
        found = sorted(record["inputs"] for record in make.records(problem, split))
        assert found == [[number, 1] for number in range(3, 9)]


@pytest.mark.parametrize("most", [None, 1, 2, 4, 9])
def test_vocabulary_of_joined_texts_has_t2ts_texts(make, most):
    """In T2T, every sample from number max_samples_for_vocab on gives only its first text."""
    problem = make(
        f"""
@registry.register_problem
class Mine(text_problems.TextConcat2ClassProblem, Base):
    num_classes = 2
    max_samples_for_vocab = {most}
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for texts in (["a", "b"], ["c", "d", "e"], ["f"], ["g", "h", "i"]):
            yield {{"inputs": texts, "label": 0}}
""",
        generated=False,
    )
    texts = list(problem.t2t.generate_text_for_vocab(make.data_dir, None))
    skipped = {1: "bdehi", 2: "dehi", 4: "hi"}.get(most, "")
    assert texts == [text for text in "abcdefghi" if text not in skipped]


_JOINED = """
@registry.register_problem
class Mine(text_problems.TextConcat2ClassProblem, Base):
    num_classes = 2
    vocab_type = "character"
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": ["a", "b"], "label": 0}
"""
_OWN_ENCODING = """
    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": [99, 1, 38, 100, 1], "targets": [0]}
"""


@pytest.mark.parametrize(
    ("source", "inputs", "is_noted"),
    [
        (_JOINED, [99, 1, 38, 100, 1], True),
        (_JOINED, [99, 38, 100, 1], False),
        (_JOINED + _OWN_ENCODING, [99, 1, 38, 100, 1], False),
    ],
)
def test_eos_between_texts_of_older_versions_is_noted(make, capsys, source, inputs, is_noted):
    problem = make(source, generated=False)
    path = os.path.join(make.data_dir, "mine-dev-00000-of-00001")
    os.makedirs(make.data_dir)
    tfrecords.write([{"inputs": inputs, "targets": [1]}], [path])
    hp = types.SimpleNamespace(batch_size=64, max_length=64)
    assert len(list(problem.dataset("dev", make.data_dir, hp))) == 1
    assert ("note: mine: in " in capsys.readouterr().out) == is_noted
