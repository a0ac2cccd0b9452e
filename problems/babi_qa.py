"""bAbI: 20 tasks of questions about short stories with one-word answers.

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary?        bathroom        1

The data are from Weston et al. 2015.

`babi_qa_concat_<task>_<size>` are T2T's problems: question and story are one sequence of words.
They are separate in the record. Reading the record joins them, with `<EOQ>` between them. A record
of `babi_qa_concat_task1_1k`:

    inputs    "Where is Mary ?"                                                      + EOS
    context   "Mary moved to the bathroom . John went to the hallway ."              + EOS
    targets   "bathroom", one class id                                        (vocabulary: words)

`ut-decoder` and `ut_keras.load` read question and story as one text, which must have this form:

    Where is Mary ? <EOS> <EOQ> Mary moved to the bathroom . John went to the hallway .

As in T2T, these **train on all 20 tasks** and evaluate on the task in the name.

`babi_qa_sentence_<task>_<size>` and `babi_qa_sentence_single_<task>_<size>` are the problems of
the paper (Dehghani et al. 2019): each sentence is one position. "single" trains only on the task in
the name. An example of `babi_qa_sentence_single_task1_1k` has the shape [sentences + 1, words]. The
file stores its words as one list:

    inputs    Mary  moved  to  the  bathroom  .       the story: its last 70 sentences (task 3: 130)
              John  went   to  the  hallway   .
              0     0      0   0    0         0       empty rows up to the longest story
              Where is     Mary ?   0         0       the question is always the last row
    targets   bathroom

In "all_tasks", 88 % of the rows are empty, and an empty row costs as much time as any other row.
The hparam `trim_stories=True` removes the empty rows when the records are read. It has these
effects:

- The length of an example, by which examples are bucketed, is the number of its rows.
- `batch_size` counts real rows and the padding after the shorter stories of a batch. This padding
  does not change predictions unless `class_label_pooling` is "mean".
- The question directly follows the story, unlike in T2T. Therefore the position of the question
  depends on the length of the story, and a convolution (`sepconv`) sees the last sentences next to
  the question.

The default is False, as in T2T.

`task` is all_tasks or task1..task20. `size` is 1k or 10k (train examples per task). As in T2T and
in the authors' code, the dev split is bAbI's **test** file with 1,000 questions per task. To select
a model or hparams, use `<name>_valid`. Its dev split is the official validation split, about 10 %
of the training stories, and its train split has only the other stories. Its test split is the test
file (`--eval_use_test_set`). The vocabulary and the ids are the same as for `<name>`.

Unlike in T2T, every record also contains its `task`, 1..20. Therefore an evaluation gives the
numbers of the paper's table 1:

    error/task_1 … error/task_20     share of errors, in metrics.jsonl and TensorBoard
    mean_error                       their mean                     (table: "average error", in %)
    failed_tasks                     number of tasks above 0.05     (table: in parentheses)

In the paper, "joint" is one run on `babi_qa_sentence_all_tasks_10k`, and "single" is the mean over
20 runs on `babi_qa_sentence_single_task1_10k` to `…_task20_10k`.

`babi_qa_sentence_single_taskN_1k_permuted_valid` are additional problems. Their training
stories have copies with exchanged words, see `BabiQaPermuted`. For task 16, there is also
`babi_qa_sentence_single_task16_10k_permuted_valid`.

Commas in an answer are removed, so that it is one word. `<EOQ>` has id 2. (In T2T it has the same
id as the full stop.) babi_files.py reads the raw data. Train and test files of bAbI overlap: 741 of
the 1,000 test stories of task 4 are also in its 10k training file.
"""

import collections
import copy
import functools
import itertools
import os
import random
from typing import Any

from ut_keras.data import features, tfrecords
from ut_keras.errors import DataError
from ut_keras.files import json_file
from ut_keras.problems import babi_files, problem, text_problems
from ut_keras.problems.problem import Metrics, Records, Specs
from ut_keras.text import text_encoder

_SEPARATOR = "<EOQ>"
_SEPARATOR_ID = 2
_FAILED = 0.05  # a task fails if its share of errors is larger than this value
# T2T's records have no task. Their task gets the default 0, which is not the number of a task.
_TASK = features.FeatureSpec(len(babi_files.TASKS) + 1, "class_label", default=0)


class _BabiProblem(text_problems.WordsProblem):
    """Base class of `BabiQaConcat` and `BabiQaSentence`.

    If `splits` contains "test", the dev split is the validation split. Otherwise the dev split is
    the test file.
    """

    task = 0  # 0 means all tasks
    subset = "en"  # the value is "en" or "en-10k"
    is_joint = True  # whether to train on all tasks
    paper = "Dehghani et al. 2019, table 1"
    raw_files = (babi_files.ARCHIVE,)
    num_train_shards = 1
    eval_metrics = ("accuracy",)
    other_results = ("error/task_*", "mean_error", "failed_tasks")
    class_label_features = ("targets",)
    reserved_words: tuple[str, ...] = ()

    @property
    def _dev_tasks(self):
        return (self.task,) if self.task else tuple(babi_files.TASKS)

    @property
    def _train_tasks(self):
        return tuple(babi_files.TASKS) if self.is_joint else self._dev_tasks

    def record_specs(self, data_dir: str | None) -> Specs:
        return {**self.feature_specs(data_dir), "task": _TASK}

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        # Errors in the raw data must occur before anything is written, so every split is read here.
        for split in self.splits:
            self._examples(split, tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def words(self, tmp_dir: str | None) -> list[str]:
        texts: collections.Counter[str] = collections.Counter()
        for example in self._all_examples(tmp_dir):
            texts.update((*example.story, example.question, example.answer))
        counts: collections.Counter[str] = collections.Counter()
        for text, count in texts.items():
            for word in text.split():
                counts[word] += count
        return [*self.reserved_words, *text_problems.by_frequency(counts)]

    def _all_examples(self, tmp_dir):
        return [
            *babi_files.read_examples(tmp_dir, self.subset, self._train_tasks, "train"),
            *babi_files.read_examples(tmp_dir, self.subset, self._dev_tasks, "test"),
        ]

    def _examples(self, split, tmp_dir):
        tasks = self._train_tasks if split == "train" else self._dev_tasks
        subset, mode = self.subset, "train" if split == "train" else "test"
        if "test" in self.splits and split != "test":
            subset, mode = subset.replace("en", "en-valid"), "valid" if split == "dev" else "train"
        return babi_files.read_examples(tmp_dir, subset, tasks, mode)

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        return {
            f"error/task_{task}": features.FeatureMetric(functools.partial(_wrong_answers, task))
            for task in self._dev_tasks
        }

    def summarize(self, results: dict[str, float]) -> dict[str, float]:
        errors = [value for name, value in results.items() if name.startswith("error/task_")]
        if not errors:
            return {}
        failed = sum(error > _FAILED for error in errors)
        return {"mean_error": sum(errors) / len(errors), "failed_tasks": float(failed)}


def _wrong_answers(task, logits, targets, features):
    """Return (number of errors, number of questions) of a task."""
    import tensorflow as tf

    from ut_keras.ops import maximum

    wrong = ~maximum.is_argmax(logits, targets[:, 0])
    of_task = tf.cast(features["task"][:, 0] == task, tf.float32)
    return tf.reduce_sum(tf.cast(wrong, tf.float32) * of_task), tf.reduce_sum(of_task)


class BabiQaConcat(_BabiProblem):
    """A problem whose question and story are one sequence of words, in T2T's files."""

    line_note = f"a line must be QUESTION <EOS> {_SEPARATOR} STORY, with spaces between all tokens"
    line_mark = f" <EOS> {_SEPARATOR} "
    reserved_words = (_SEPARATOR,)

    @property
    def filename(self) -> str:
        task = f"qa{self.task}_{babi_files.TASKS[self.task]}" if self.task else "qa0_all-tasks"
        return f"babi_qa_{self.subset}_{task}{'_valid' * ('test' in self.splits)}"

    def record_specs(self, data_dir: str | None) -> Specs:
        specs = super().record_specs(data_dir)
        return {**specs, "context": specs["inputs"]}

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        import tensorflow as tf

        separators = tf.fill([tf.shape(records["targets"])[0], 1], _SEPARATOR_ID)
        parts = [records["inputs"], separators, records["context"]]
        others = {name: records[name] for name in ("targets", "task")}
        return {"inputs": tf.concat(parts, axis=1), **others}

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Records:
        encoder = self.feature_encoders(data_dir)["inputs"]
        for example in self._examples(split, tmp_dir):
            yield {
                "inputs": encoder.encode(example.question) + [text_encoder.EOS],
                "context": encoder.encode(" ".join(example.story)) + [text_encoder.EOS],
                "targets": encoder.encode(example.answer),
                "task": [example.task],
            }


class BabiQaSentence(_BabiProblem):
    """A problem in which each sentence of the story is one position.

    The question is also one position. The files have the same content as the files of the paper.
    Unlike in the code of the paper's authors, each problem has its own file names. (In that code,
    the joint problem, the single problem and T2T's concat problem of a task have the same file
    names.)
    """

    _trims = False

    @property
    def metadata_filename(self) -> str:
        return f"{self.filename}-meta_data.json"

    def side_files(self) -> tuple[str, ...]:
        return (self.vocab_filename, self.metadata_filename)

    def feature_specs(self, data_dir: str | None) -> Specs:
        shape = _shape(os.path.join(data_dir or "", self.metadata_filename))
        specs = super().feature_specs(data_dir)
        rows = features.FeatureSpec(specs["inputs"].vocab_size, "sentences", shape)
        return {**specs, "inputs": rows}

    def with_hparams(self, hparams: Any, split: str | None = None) -> "BabiQaSentence":
        other = copy.copy(self)
        other._trims = getattr(hparams, "trim_stories", False)
        return other

    @property
    def preprocess_key(self) -> str:
        return "trimmed" if self._trims else ""

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        if not self._trims:
            return records
        import tensorflow as tf

        rows = records["inputs"]
        return {**records, "inputs": tf.ragged.boolean_mask(rows, tf.reduce_any(rows != 0, axis=2))}

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        examples = self._all_examples(tmp_dir)
        sentences = {sentence for example in examples for sentence in self._story(example)}
        metadata = {
            "max_story_length": max(len(self._story(example)) for example in examples),
            "max_sentence_length": max((len(some.split()) for some in sentences), default=0),
            "max_question_length": max(len(example.question.split()) for example in examples),
        }
        path = os.path.join(data_dir, self.metadata_filename)
        if any(tfrecords.exist(data_dir, self.filename, split) for split in self.splits):
            existing = json_file.read(path, DataError) if os.path.exists(path) else metadata
            if any(existing.get(name) != metadata[name] for name in metadata):
                raise DataError(
                    f"{path} must be {metadata}, the lengths of the stories in tmp_dir={tmp_dir!r}."
                    f" Received: {existing}, the lengths in the existing records. Use the former "
                    f"files of bAbI, or remove {self.filename}-* to generate them again."
                )
        super().prepare(data_dir, tmp_dir)
        json_file.write(path, metadata, indent=None)

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Records:
        encoder = self.feature_encoders(data_dir)["inputs"]
        rows, words = self.feature_specs(data_dir)["inputs"].shape

        @functools.cache
        def to_row(sentence):
            ids = encoder.encode(sentence)
            return ids + [text_encoder.PAD] * (words - len(ids))

        for example in self._examples(split, tmp_dir):
            story = self._story(example)
            sentences = [*story, *[""] * (rows - 1 - len(story)), example.question]
            yield {
                "inputs": [i for sentence in sentences for i in to_row(sentence)],
                "targets": encoder.encode(example.answer),
                "task": [example.task],
            }

    def _story(self, example):
        return example.story[-(130 if self.task == 3 else 70) :]


class BabiQaPermuted(BabiQaSentence):
    """One or all tasks, with copies of the training stories in other words.

    Each copy permutes the names, and also the animals, the colors, the shapes, the places and the
    things. A name becomes another name of the training stories of the same task. The answer is
    permuted too, so it stays correct. In some tasks, only some of these words can be exchanged. The
    copies of tasks 15, 18 and 20 are equal to the original stories.

    Without the copies, a model memorizes the original stories before it learns how to find an
    answer. In task 16, for example, an answer takes three steps: find which kind of animal has the
    name, find the last other animal of this kind, and find the color of that animal. The paper does
    not have these problems.
    """

    copies = 20
    _places = "bathroom bedroom cinema garden hallway kitchen office park school"
    _alike = (
        "Bernhard Bill Brian Daniel Fred Greg Jeff John Julie Julius Lily Mary Sandra",
        "frog lion rhino swan",
        "blue gray green pink red white yellow",
        "rectangle sphere square triangle",
        _places,
        "apple football milk",
    )
    # In these tasks, some exchanged words would make a story or its answer wrong.
    _alike_in_task = {
        8: (_alike[0], _places),  # an answer may be a list, such as "apple,milk"
        11: ("Mary Sandra", "Daniel John", _places),  # "he" and "she" must agree with the name
        15: (),  # a word has several forms, such as "mouse" and "mice"
        18: (),  # "box" is a part of "box of chocolates"
        20: (),  # each motive belongs to a place and to a thing
    }

    def _examples(self, split, tmp_dir):
        examples = super()._examples(split, tmp_dir)
        if split != "train":
            return examples
        by_task = itertools.groupby(examples, key=lambda example: example.task)
        return [copy for task, group in by_task for copy in self._copies(task, list(group))]

    def _copies(self, task, examples):
        """Yield the copies of the examples of one task."""
        known = {
            word
            for example in examples
            for text in (*example.story, example.question, example.answer)
            for word in text.split()
        }
        groups = self._alike_in_task.get(task, self._alike)
        alike = [[word for word in words.split() if word in known] for words in groups]
        rng = random.Random(task)
        for example in examples:
            for _ in range(self.copies):
                yield self._permuted(example, alike, rng)

    def _permuted(self, example, alike, rng):
        new: dict[str, str] = {}
        for words in alike:
            new.update(zip(words, rng.sample(words, len(words)), strict=True))

        def permuted(text):
            return " ".join(new.get(word, word) for word in text.split())

        return example._replace(
            story=[permuted(sentence) for sentence in example.story],
            question=permuted(example.question),
            answer=permuted(example.answer),
        )


def _shape(path):
    """Return the shape (sentences, words) of an example from the metadata file."""
    lines = text_encoder.read_lines(path)
    try:
        metadata = json_file.parse("\n".join(lines))
        sentences = metadata["max_story_length"] + 1
        words = max(metadata["max_sentence_length"], metadata["max_question_length"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} must contain the lengths that data generation writes. Received: {error!r}."
        ) from error
    return sentences, words


# This loop declares babi_qa_{concat,sentence,sentence_single}_{all_tasks,taskN}_{1k,10k}{,_valid}.
for (_form, _class, _is_joint), _task, (_size, _subset), (_end, _splits) in itertools.product(
    (
        ("concat", BabiQaConcat, True),
        ("sentence", BabiQaSentence, True),
        ("sentence_single", BabiQaSentence, False),
    ),
    (0, *babi_files.TASKS),
    babi_files.SUBSETS.items(),
    (("", ("train", "dev")), ("_valid", ("train", "dev", "test"))),
):
    problem.declare(
        f"babi_qa_{_form}_{f'task{_task}' if _task else 'all_tasks'}_{_size}{_end}",
        _class,
        task=_task,
        subset=_subset,
        is_joint=_is_joint,
        splits=_splits,
    )

# This loop declares babi_qa_sentence_single_taskN_1k_permuted_valid, a 10k problem for task 16, and
# babi_qa_sentence_all_tasks_1k_permuted_valid.
for _task, _size in (*((task, "1k") for task in (*babi_files.TASKS, 0)), (16, "10k")):
    _name = f"sentence_single_task{_task}" if _task else "sentence_all_tasks"
    problem.declare(
        f"babi_qa_{_name}_{_size}_permuted_valid",
        BabiQaPermuted,
        task=_task,
        subset=babi_files.SUBSETS[_size],
        is_joint=not _task,
        splits=("train", "dev", "test"),
    )
