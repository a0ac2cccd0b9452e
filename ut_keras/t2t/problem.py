"""Stand-in for data_generators.problem: the base class of a package's problems.

`adapted_problem` reads the attributes of a problem and calls its methods. ut_keras itself reads and
batches the data.

References: tensor2tensor/data_generators/problem.py.
"""

import functools
import random
import types
from collections.abc import Callable
from typing import Any

from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems.problem import Encoders
from ut_keras.t2t import generator_utils, hparam, text_encoder
from ut_keras.t2t.naming import Metrics


class DatasetSplit:
    """T2T's names of the splits."""

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


# T2T's name of a split in code -> name of the split in file names and in ut_keras. The second dict
# is the inverse of the first.
SPLIT_OF_FILES = {"train": "train", "eval": "dev", "test": "test"}
SPLIT_OF_T2T = {name: word for word, name in SPLIT_OF_FILES.items()}
# T2T's ids of kinds of text, from 0. T2T's models have an embedding for these ids.
_SPACES = """
    GENERIC IMAGE_LABEL EN_CHR EN_TOK EN_BPE_TOK FR_CHR FR_TOK DE_CHR DE_TOK DE_BPE_TOK DIGIT_0
    DIGIT_1 AUDIO_WAV AUDIO_SPECTRAL PARSE_CHR PARSE_TOK ZH_TOK ICE_CHAR ICE_TOK ICE_PARSE_TOK
    MK_TOK CS_TOK CS_CHR DNA REAL IMAGE PEPTIDE PY_TOK CPP_TOK STROKES PICKLED_PYTHON
"""
SpaceID: Any = types.SimpleNamespace(**{name: i for i, name in enumerate(_SPACES.split())})
# T2T's ids of kinds of tasks, from 2.
_TASKS = "EN_CHR EN_CHR_SENT EN_PR_HYP EN_NLI COLA EN_Q_CONT EN_SIM EN_SENT_PAIR THREE_CL_NLI"
TaskID: Any = types.SimpleNamespace(**{name: i for i, name in enumerate(_TASKS.split(), start=2)})


def default_hparams() -> hparam.HParams:
    """Return the initial values, which `Problem.hparams` then changes."""
    return hparam.HParams(
        loss_multiplier=1.0,
        batch_size_multiplier=1,
        stop_at_eos=0,
        modality={},
        vocab_size={},
        # Older problems of T2T set these to (modality, vocabulary size).
        input_modality={},
        target_modality=None,
        input_space_id=0,
        target_space_id=0,
        tasks=[],
    )


def default_model_hparams() -> hparam.HParams:
    """Return the model hparams for `Problem.hparams` if the hparams set is unknown."""
    return hparam.HParams(
        max_input_seq_length=0,
        max_target_seq_length=0,
        prepend_mode="none",
        split_to_length=0,
        max_length=0,
        batch_size=4096,
        use_fixed_batch_size=False,
        data_dir=None,
    )


def set_seeds(seed: int) -> None:
    """Set the same seeds that t2t-datagen sets before it calls a problem."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)


class TruncationCalls:
    """The number of calls of `preprocess_example_common` in this process.

    `example_features` reads this number before and after a package's `preprocess_example`. The
    package may call the function with a new dict and other hparams, which `example_features` does
    not see.
    """

    number = 0


def preprocess_example_common(example: dict[str, Any], mode: str, hparams: Any) -> dict[str, Any]:
    """Truncate inputs and targets to the maximum lengths in the hparams, in place.

    The segmentation and positions of a packed feature are truncated to the same length. The model
    itself joins inputs and targets for `prepend_mode`.
    """
    TruncationCalls.number += 1
    most = {"inputs": hparams.max_input_seq_length, "targets": hparams.max_target_seq_length}
    for name, limit in most.items():
        for part in (name, f"{name}_segmentation", f"{name}_position"):
            if limit > 0 and part in example:
                example[part] = example[part][:limit]
    return example


class RequiredAttribute:
    """An attribute that a subclass must define. Otherwise reading it raises DataError."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, problem: Any, owner: type | None = None) -> Any:
        if problem is None:
            return self
        cls = type(problem)
        is_old = self._name.startswith("generate_") and hasattr(cls, "generator")
        old = ", but with `generator`, which T2T had before 1.5.2" if is_old else ""
        raise DataError(
            f"{cls.__name__} must define {self._name}. Received: a class without it{old}."
        )


class Problem:
    """A problem with T2T's methods."""

    name = ""
    # `multi_problem`, which imports this module, sets this to its function `adapt`.
    make_adapted: Callable[[Any], Any]
    _max_cases: int | None = None  # limit of samples during data generation; set by `adapted`

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        self._was_reversed = was_reversed
        self._was_copy = was_copy
        self._encoders: Encoders | None = None
        self._hparams: hparam.HParams | None = None
        # The hparams before inputs and targets are exchanged for NAME_rev or copied for NAME_copy.
        self._direct_hparams = default_hparams()
        self._task_id = -1

    @functools.cached_property
    def adapted(self) -> Any:
        """The `adapted_problem.Adapted` of this problem, which handles its data.

        `Adapted` sets this attribute. If the package itself creates the problem, nothing has set it
        before the first access.
        """
        return type(self).make_adapted(self)

    # For the tasks of a `multi_problem.MultiProblem`.

    @property
    def task_id(self) -> int:
        """The id that precedes the targets. It is not an id of the vocabulary."""
        return self._task_id

    def set_task_id(self, new_task_id: int) -> None:
        self._task_id = new_task_id

    # Data generation.

    generate_data: Any = RequiredAttribute()  # (data_dir, tmp_dir, task_id=-1)
    multiprocess_generate = False  # if True, the next two attributes are required
    num_generate_tasks: Any = RequiredAttribute()  # int
    prepare_to_generate: Any = RequiredAttribute()  # (data_dir, tmp_dir)

    def dataset_filename(self) -> str:
        return self.name

    def data_filepaths(
        self, split: str, output_dir: str, num_shards: int, shuffled: bool
    ) -> list[str]:
        return self._filepaths(SPLIT_OF_FILES.get(split, split), output_dir, num_shards, shuffled)

    def _filepaths(self, name, data_dir, num_shards, shuffled):
        base = self.dataset_filename() + ("" if shuffled else generator_utils.UNSHUFFLED_SUFFIX)
        return tfrecords.shard_paths(data_dir, base, name, num_shards)

    # (data_dir, num_shards, shuffled) -> list[str]
    training_filepaths = functools.partialmethod(_filepaths, "train")
    dev_filepaths = functools.partialmethod(_filepaths, "dev")
    test_filepaths = functools.partialmethod(_filepaths, "test")

    # Features.

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        pass

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return {"inputs": text_encoder.TextEncoder(), "targets": text_encoder.TextEncoder()}

    def get_feature_encoders(self, data_dir: str | None = None) -> Encoders:
        if self._encoders is None:
            self._encoders = self.feature_encoders(data_dir)
        return self._encoders

    def get_hparams(self, model_hparams: hparam.HParams | None = None) -> hparam.HParams:
        if self._hparams is None:
            model_hparams = model_hparams or default_model_hparams()
            encoders = self.get_feature_encoders(model_hparams.get("data_dir"))
            values = default_hparams()
            self.hparams(values, model_hparams)
            self._direct_hparams = values
            self._hparams = self._reversed_or_copied(values)
            self._hparams.add_hparam("vocabulary", self._reversed_or_copied_features(encoders))
            self._hparams.add_hparam("was_reversed", self._was_reversed)
            self._hparams.add_hparam("was_copy", self._was_copy)
        return self._hparams

    def _reversed_or_copied(self, values):
        """Return the hparams of NAME_rev or NAME_copy.

        For other problems, return `values` itself.
        """
        if not (self._was_reversed or self._was_copy):
            return values
        changed = hparam.HParams(**values.values())
        changed.modality = self._reversed_or_copied_features(values.modality)
        changed.vocab_size = self._reversed_or_copied_features(values.vocab_size)
        spaces = {"inputs": values.input_space_id or 0, "targets": values.target_space_id or 0}
        spaces = self._reversed_or_copied_features(spaces)
        changed.input_space_id, changed.target_space_id = spaces["inputs"], spaces["targets"]
        return changed

    def _reversed_or_copied_features(self, values):
        """Return a dict in which the values of inputs and targets are exchanged or copied."""
        changed = dict(values)
        if self._was_reversed:
            for name, other in (("inputs", "targets"), ("targets", "inputs")):
                changed.pop(name, None)
                if other in values:
                    changed[name] = values[other]
        if self._was_copy and "inputs" in changed:
            changed["targets"] = changed["inputs"]
        return changed

    @property
    def was_reversed(self) -> bool:
        return self._was_reversed

    def max_length(self, model_hparams: hparam.HParams) -> int:
        return model_hparams.split_to_length or model_hparams.max_length or model_hparams.batch_size

    batch_size_means_tokens = False

    def example_reading_spec(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        return {"inputs": None, "targets": None}, None

    def preprocess_example(
        self, example: dict[str, Any], mode: str, hparams: hparam.HParams
    ) -> dict[str, Any]:
        return preprocess_example_common(example, mode, hparams)

    def eval_metrics(self) -> list[str]:
        return [Metrics.ACC, Metrics.ACC_TOP5, Metrics.ACC_PER_SEQ, Metrics.NEG_LOG_PERPLEXITY]

    decode_hooks: list[Any] = []

    def eval_hooks(
        self, features: dict[str, Any], logits: Any, hparams: hparam.HParams
    ) -> list[Any]:
        return []
