"""Stand-in for data_generators.multi_problem: several text problems at once.

    class Mine(multi_problem.MultiProblem):
        def __init__(self, was_reversed=False, was_copy=False):
            super().__init__(was_reversed, was_copy)
            self.task_list = [Tales(), Reviews(), Titles()]       the first is a language model

One language model learns all problems. Its vocabulary consists of the vocabulary of the first
problem, one id per problem (the task id), and one id per class. The examples are sequences of ids:

    Tales      a text                    [task] text EOS
    Reviews    inputs, class             inputs [task] [class]
    Titles     inputs, targets           inputs [task] targets EOS

An epoch has as many examples as all problems together. The hparams determine the share of each
problem.

References: tensor2tensor/data_generators/multi_problem.py. The loss functions of this module in T2T
1.15 fail, because they pass one argument too many to a function. ut_keras computes the intended
losses.
"""

import collections
import copy
import functools
import re
from collections.abc import Sequence
from typing import Any

from ut_keras.data import features
from ut_keras.data.reading import reading_options
from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.problems import problem
from ut_keras.t2t import adapted_problem, overridden, text_problems
from ut_keras.t2t import problem as t2t_problem
from ut_keras.t2t.naming import Metrics
from ut_keras.text import text_encoder, text_encoder_base
from ut_keras.text.subword_vocabulary import escape_token

_NO_LIMIT = 2**31 - 1
# Methods of a `MultiProblem` that T2T calls and ut_keras does not call.
_NOT_CALLED = ("generate_data", "get_hparams", "max_length")


class MultiProblem(t2t_problem.Problem):
    """Several problems with T2T's methods. A subclass fills `task_list`."""

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        self.task_list: list[Any] = []

    def update_task_ids(self, encoder_vocab_size: int) -> None:
        for number, task in enumerate(self.task_list):
            task.set_task_id(encoder_vocab_size + number)

    def get_max_num_classes(self) -> int:
        return max((task.num_classes for task in self.task_list if _has_classes(task)), default=0)

    def eval_metrics(self) -> list[str]:
        names = [Metrics.ACC, Metrics.NEG_LOG_PERPLEXITY]
        if any("summarize" in task.name for task in self.task_list):
            names += [Metrics.ROUGE_2_F, Metrics.ROUGE_L_F]
        return names


def adapt(t2t: t2t_problem.Problem) -> problem.Problem:
    """Wrap a T2T problem or multi-problem as a `problems.Problem`."""
    return AdaptedMulti(t2t) if isinstance(t2t, MultiProblem) else adapted_problem.adapt(t2t)


# A package may create problems of classes that it does not register.
t2t_problem.Problem.make_adapted = staticmethod(adapt)


def _has_classes(task):
    return isinstance(task, text_problems.Text2ClassProblem)


class AdaptedMulti(problem.Problem):
    """Wraps a `MultiProblem` in the interface of problems/problem.py.

    Args:
        t2t: `MultiProblem`. The problem of the package.

    Attributes:
        tasks: list of `problems.Problem`, the adapted problems of `t2t.task_list`.
    """

    def __init__(self, t2t: MultiProblem) -> None:
        self.t2t = t2t
        self.name = t2t.name
        _check_tasks(t2t)
        self._tasks_to_read = self.tasks = [adapted_problem.adapt(task) for task in t2t.task_list]
        self._encoders: dict[str | None, text_encoder.SubwordTextEncoder] = {}

    def check(self) -> None:
        for t2t in (self.t2t, *self.t2t.task_list):
            overridden.check(t2t)
        for name in _NOT_CALLED:
            if not overridden.is_unchanged(self.t2t, name):
                raise DataError(
                    f"{type(self.t2t).__name__} must not override {name}, which is not called for "
                    f"a MultiProblem. Received: an override of {name}."
                )

    # Properties of the problem.

    @property
    def splits(self) -> tuple[str, ...]:  # type: ignore[override]
        first, *others = (task.splits for task in self.tasks)
        return tuple(name for name in first if all(name in splits for splits in others))

    @property
    def eval_metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.t2t.eval_metrics())

    @property
    def target_space_id(self) -> int:  # type: ignore[override]
        return self.tasks[0].target_space_id

    def feature_encoders(self, data_dir: str | None) -> problem.Encoders:
        data_dir = file_error.optional_path(data_dir, "data_dir")
        # This call also reads the target space of the first problem, so it is necessary even if the
        # extended vocabulary is known.
        encoder = self.tasks[0].feature_encoders(data_dir)["targets"]
        if data_dir not in self._encoders:
            self._encoders[data_dir] = self._extended(encoder, data_dir)
        return {"targets": self._encoders[data_dir]}

    def _extended(self, encoder, data_dir):
        """Return the first problem's vocabulary, extended by tasks and classes.

        Each task and each class has one entry. No text contains these entries. T2T decodes them to
        an empty string, while ut_keras decodes a class to its name.
        """
        is_changed = text_encoder_base.is_overridden(encoder, "encode", "decode")
        if is_changed or not isinstance(encoder, text_encoder.SubwordTextEncoder):
            raise DataError(
                f"The first problem of {self.name} must have a SubwordTextEncoder, without an "
                f"override of encode or decode. Received: {encoder.kind}."
            )
        self.t2t.update_task_ids(encoder.vocab_size)
        entries = [""] * len(self.tasks)
        labels = [t.class_labels(data_dir) for t in self.t2t.task_list if _has_classes(t)]
        for number in range(self.t2t.get_max_num_classes()):
            names = dict.fromkeys(names[number] for names in labels if number < len(names))
            entries.append("_" + escape_token("/".join(map(str, names)), encoder.alphabet))
        return text_encoder.SubwordTextEncoder(subtokens=[*encoder.subtokens, *entries])

    def feature_specs(self, data_dir: str | None) -> problem.Specs:
        size = self.feature_encoders(data_dir)["targets"].vocab_size
        return {"targets": features.FeatureSpec(size)}

    def feature_metrics(self, data_dir: str | None) -> problem.Metrics:
        from ut_keras import metrics as metrics_lib

        self.feature_encoders(data_dir)  # this call also sets the task ids
        return {
            f"{name}_{task.name}": features.FeatureMetric(
                functools.partial(_metric, metrics_lib.get(name), task.t2t.task_id)
            )
            for task in self.tasks
            for name in self.eval_metrics
            if name in metrics_lib.names()
        }

    def task_of(self, task_id: int, vocab_size: int) -> problem.Problem | None:
        """Return the problem with a task id in a vocabulary of `vocab_size`, or None."""
        number = task_id - (vocab_size - self.t2t.get_max_num_classes() - len(self.tasks))
        return self.tasks[number] if 0 <= number < len(self.tasks) else None

    # Data.

    def num_shards(self, split: str) -> int:
        return sum(task.num_shards(split) for task in self.tasks)

    def generate_data(self, data_dir: str, *args: Any, **options: Any) -> dict[str, int]:
        counts: collections.Counter[str] = collections.Counter()
        for task in self.tasks:
            counts.update(task.generate_data(data_dir, *args, **options))
        self._encoders.clear()
        return dict(counts)

    def split_files(self, split: str, data_dir: str) -> list[str]:
        return [path for task in self._tasks_to_read for path in task.split_files(split, data_dir)]

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        rest = list(counts)
        for task in self._tasks_to_read:
            number = len(task.split_files(split, data_dir))
            task.check_counts(split, data_dir, rest[:number])
            rest = rest[number:]

    def with_hparams(self, hparams: Any, split: str | None = None) -> "AdaptedMulti":
        _mixture(hparams, len(self.t2t.task_list))  # raises an error for invalid hparams
        other = copy.copy(self)
        other._tasks_to_read = other.tasks = [
            task.with_hparams(hparams, split) for task in self.tasks
        ]
        if split in ("dev", "test") and hparams.multiproblem_target_eval_only:
            other._tasks_to_read = other.tasks[1:2]
        return other

    def reading(self, split: str, data_dir: str, hparams: Any) -> reading_options.ReadingOptions:
        for task in self.tasks:
            task.stored_features()  # raises an error for features that the package decodes
        return reading_options.ReadingOptions(
            parse=JointExampleParser(self.t2t, hparams, split == "train").parse,
            evenly_sharded=all(task.writes_in_turn for task in self._tasks_to_read),
            groups=[len(task.split_files(split, data_dir)) for task in self._tasks_to_read],
            mixture=_mixture(hparams, len(self.t2t.task_list)),
            limits={},  # the parser truncates inputs and targets before it joins them
        )


class JointExampleParser:
    """Converts records of all problems to examples of the joint language model.

    Args:
        t2t: `MultiProblem` whose problems have task ids.
        hparams: has T2T's fields `multiproblem_max_input_length` and so on.
        training: bool. If False, the examples have no weights, even if
            `multiproblem_reweight_label_loss` is set.
    """

    def __init__(self, t2t: MultiProblem, hparams: Any, training: bool = False) -> None:
        tasks = t2t.task_list
        first_class = tasks[0].task_id + len(tasks)
        most = (hparams.multiproblem_max_input_length, hparams.multiproblem_max_target_length)
        self._names = [task.dataset_filename() for task in tasks]
        self._offsets = [first_class if _has_classes(task) else 0 for task in tasks]
        # Length limits [inputs, targets] by task.
        self._most = [
            [n if n > 0 and task.has_inputs and not _has_classes(task) else _NO_LIMIT for n in most]
            for task in tasks
        ]
        self._first_task = tasks[0].task_id
        self._longest = hparams.multiproblem_fixed_train_length
        seq_lengths = (hparams.max_input_seq_length, hparams.max_target_seq_length)
        # The limits [inputs, targets] of all problems, which apply before EOS is removed.
        self._most_ids = [n if n > 0 else None for n in seq_lengths]
        label = hparams.multiproblem_label_weight
        self._reweighs = training and hparams.multiproblem_reweight_label_loss
        # Each task has two shares of the loss: one for the positions before the targets, one for
        # the targets. The first task has only targets.
        self._shares = [0.0, 1.0] + [1 - label, label] * (len(tasks) - 1)
        ids = features.FeatureSpec(max(self._first_task, t2t.get_max_num_classes()))
        self._specs = {"inputs": ids._replace(default=text_encoder.EOS), "targets": ids}
        key = (self._names, self._offsets, self._most, self._first_task, self._longest)
        self.preprocess_key = repr((*key, self._reweighs))

    def parse(self, files: Any, records: Any) -> dict[str, Any]:
        """Return the features of n records: {"targets": ids [n, (length)]}.

        With `multiproblem_reweight_label_loss`, the dict also has "weights", float [n, (length)].

        Args:
            files: string tensor [n], the paths of the records' files.
            records: string tensor [n], the serialized records.
        """
        import tensorflow as tf

        from ut_keras.data.reading import record_parser

        rows = record_parser.parse_records(files, records, self._specs)
        patterns = [f".*/{re.escape(name)}-(train|dev|test)-[^/]*" for name in self._names]
        matches = [tf.strings.regex_full_match(files, pattern) for pattern in patterns]
        task = tf.argmax(tf.stack(matches, axis=1), axis=1, output_type=tf.int32)
        most = tf.gather(tf.constant(self._most), task)
        offsets = tf.gather(tf.constant(self._offsets), task)
        inputs = _cut(rows["inputs"][:, : self._most_ids[0]][:, :-1], most[:, 0])
        targets = _cut(rows["targets"][:, : self._most_ids[1]], most[:, 1])
        shift = tf.gather(offsets, targets.value_rowids())
        targets = targets.with_flat_values(targets.flat_values + shift)
        number = self._first_task + task
        joined = tf.concat([inputs, number[:, tf.newaxis], targets], axis=1)
        if self._longest > 0:
            joined = joined[:, : self._longest]
        if not self._reweighs:
            return {"targets": joined}
        first = tf.where(task > 0, tf.cast(inputs.row_lengths(), tf.int32) + 1, 0)
        return {"targets": joined, "weights": self._weights(joined, task, first)}

    def _weights(self, joined, task, first):
        """Return the weights that give T2T's loss of a batch.

        The loss is a sum over problems. Each problem contributes two means, each multiplied by its
        share: the mean over its targets, which begin at `first`, and the mean over the positions
        before them.
        """
        import tensorflow as tf

        rows = joined.value_rowids()
        positions = tf.ragged.range(tf.cast(joined.row_lengths(), tf.int32)).flat_values
        part = 2 * tf.gather(task, rows) + tf.cast(positions >= tf.gather(first, rows), tf.int32)
        counts = tf.math.bincount(part, minlength=len(self._shares), dtype=tf.float32)
        weights = tf.math.divide_no_nan(tf.constant(self._shares), counts)
        return joined.with_flat_values(tf.gather(weights, part))


def _cut(rows, most):
    """Cut the rows of a ragged tensor [n, (length)] to the lengths `most`, int [n]."""
    import tensorflow as tf

    positions = tf.ragged.range(tf.cast(rows.row_lengths(), tf.int32)).flat_values
    kept = positions < tf.gather(most, rows.value_rowids())
    return tf.ragged.boolean_mask(rows, rows.with_flat_values(kept))


def _metric(function, task_id, logits, targets, features):
    """Return a metric of one task's examples at the positions after the task id."""
    import tensorflow as tf

    is_task = tf.cast(targets == task_id, tf.float32)
    is_after = tf.cumsum(is_task, axis=1, exclusive=True)
    return function(logits, targets, is_after * (1 - is_task))


# Checks, and conversion of T2T's hparams.


def _check_tasks(t2t):
    tasks = t2t.task_list

    def check(is_fine, expected):
        if not is_fine:
            names = ", ".join(type(task).__name__ for task in tasks) or "none"
            raise DataError(f"task_list of {t2t.name} must be {expected}. Received: {names}.")

    is_first_self = tasks and isinstance(tasks[0], text_problems.Text2SelfProblem)
    check(is_first_self and len(tasks) > 1, "a Text2SelfProblem and at least one other problem")
    is_text = all(isinstance(task, text_problems.Text2TextProblem) for task in tasks)
    check(is_text, "problems that derive from text_problems.Text2TextProblem")
    subwords = all(task.vocab_type == text_problems.VocabType.SUBWORD for task in tasks)
    check(subwords, "problems whose vocab_type is subwords")
    check(not any(task.packed_length for task in tasks), "problems that are not packed")
    is_ours = all(overridden.is_unchanged(task, "preprocess_example") for task in tasks)
    check(is_ours, "problems that do not override preprocess_example")
    check(len({task.dataset_filename() for task in tasks}) == len(tasks), "different problems")
    one = len({task.vocab_filename for task in tasks}) == 1
    check(one, "problems that share one vocabulary by use_vocab_from_other_problem")


def _mixture(hp, number):
    """Return the `Mixture` of `number` problems.

    If the hparams are invalid, raise DataError.
    """
    from ut_keras.data.reading import example_order

    if hp.multiproblem_per_task_threshold:
        words = hp.multiproblem_per_task_threshold.split(",")
        are_weights = all(re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]*)?\s*", word) for word in words)
        weights = [float(word) for word in words] if are_weights else []
        if len(weights) != number or not sum(weights):
            raise DataError(
                f"multiproblem_per_task_threshold must be {number} weights that are not all 0. "
                f"Received: {hp.multiproblem_per_task_threshold}."
            )
        return example_order.Mixture([weight / sum(weights) for weight in weights])

    def shares(others):
        return [1 - others] + [others / (number - 1)] * (number - 1)

    threshold, schedule = hp.multiproblem_schedule_threshold, hp.multiproblem_mixing_schedule
    if schedule == "constant":
        return example_order.Mixture(shares(threshold))
    is_sudden = schedule == "pretrain"
    return example_order.Mixture(
        shares(1.0 if is_sudden else threshold),
        shares(0.0),
        hp.multiproblem_schedule_max_examples,
        is_sudden,
    )
