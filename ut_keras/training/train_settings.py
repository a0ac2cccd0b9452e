"""The settings of a training run."""

import dataclasses

from ut_keras.training.curriculum import CurriculumSettings
from ut_keras.training.early_stopping import EarlyStopping


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """The settings of a training run. The defaults are those of T2T's flags."""

    train_steps: int = 250000  # total number of updates, including those of earlier runs
    eval_steps: int = 100  # number of batches in an evaluation; 0 or less evaluates all
    eval_every_steps: int = 1000  # updates between two evaluations, and between two checkpoints
    eval_throttle_seconds: float = 0.0  # minimum time between two evaluations, except for the last
    save_every_seconds: float = 0.0  # seconds between checkpoints; 0 saves every eval_every_steps
    keep_checkpoints: int = 20  # number of newest checkpoints to keep; 0 keeps all
    log_every_steps: int = 100  # updates between two points of TensorBoard's training curves
    jit_compile: bool = False  # whether XLA compiles the update
    # Whether the update is traced for every batch shape. Otherwise one trace serves all shapes.
    static_shapes: bool = False
    eval_split: str = "dev"  # name of the evaluated split, for the records
    # This also determines the best weights, which are saved separately.
    early_stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    # If not 0, the weights are averaged, and evaluation and decoding use the averages.
    moving_average_decay: float = 0.0
    warm_start_from: str | None = None  # run or checkpoint that initializes a new run's weights
    curriculum: CurriculumSettings | None = None  # a curriculum of lengths
    profile_steps: tuple | None = None  # (first, last) updates to profile
