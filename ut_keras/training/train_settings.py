"""How a run goes, as the trainer takes it."""

import dataclasses

from ut_keras.training.early_stopping import EarlyStopping


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How a run goes; the defaults are those of T2T's flags."""

    train_steps: int = 250000  # updates altogether, those of earlier runs included
    eval_steps: int = 100  # batches of an evaluation; 0 or less takes all
    eval_every_steps: int = 1000  # an evaluation, and a checkpoint, every so many updates
    eval_throttle_seconds: float = 0.0  # between two evaluations, at least (the end excepted)
    save_every_seconds: float = 0.0  # if not 0, checkpoints by time and not by updates
    keep_checkpoints: int = 20  # how many of the newest to keep; 0 keeps all
    log_every_steps: int = 100  # TensorBoard gets the averages of so many updates
    jit_compile: bool = False  # whether XLA compiles the update
    # Whether to trace the update for every shape of batches; else one trace is for all of them.
    static_shapes: bool = False
    eval_split: str = "dev"  # name of what is evaluated, for the records
    # Which also says what the best weights are.
    early_stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    # If not 0, weights are averaged, and it is the averages that are evaluated and decoded with.
    moving_average_decay: float = 0.0
    warm_start_from: str | None = None  # run or checkpoint to take weights from, in a new run
    profile_steps: tuple | None = None  # (first, last) updates to profile
