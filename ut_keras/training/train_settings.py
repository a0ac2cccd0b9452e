"""The settings of a training run."""

import dataclasses

from ut_keras.training.curriculum import CurriculumSettings
from ut_keras.training.early_stopping import EarlyStopping


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """The settings of a training run. The defaults are the defaults of T2T's flags."""

    train_steps: int = 250000  # total number of updates, including the updates of earlier runs
    eval_steps: int = 100  # number of batches in an evaluation; 0 or less means all batches
    eval_every_steps: int = 1000  # updates between two evaluations, and between two checkpoints
    # Minimum time between two evaluations. The evaluation at the last step does not wait for it.
    eval_throttle_seconds: float = 0.0
    # Number of seconds between checkpoints. 0 means a checkpoint after every eval_every_steps.
    save_every_seconds: float = 0.0
    keep_checkpoints: int = 20  # number of newest checkpoints to keep; 0 means all checkpoints
    log_every_steps: int = 100  # updates between two points of TensorBoard's training curves
    jit_compile: bool = False  # whether XLA compiles the update
    # Whether training continues without XLA if XLA cannot compile the update.
    jit_fallback: bool = False
    # Whether the update is traced for every batch shape. If False, one trace serves all shapes.
    static_shapes: bool = False
    eval_split: str = "dev"  # name of the evaluated split, which is recorded with the results
    # The metric of early stopping also determines the best weights, which are saved separately.
    early_stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    # If not 0, a moving average of the weights is computed and used in evaluation and decoding.
    moving_average_decay: float = 0.0
    # Folder of a run, or path of a checkpoint, whose weights initialize a new run.
    warm_start_from: str | None = None
    curriculum: CurriculumSettings | None = None  # settings of a curriculum of lengths
    profile_steps: tuple | None = None  # (first, last), the updates to profile
