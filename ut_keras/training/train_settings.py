"""How a run goes, as the trainer takes it."""

import dataclasses

from ut_keras.training.early_stopping import EarlyStopping


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How a run goes; the defaults are those of T2T's flags.

    Fields:
        train_steps: int. Updates altogether, those of earlier runs included.
        eval_steps: int. Batches of an evaluation; 0 or less takes all.
        eval_every_steps: int. An evaluation, and a checkpoint, every so many updates.
        eval_throttle_seconds: float. No evaluation sooner after the last one (the end excepted).
        save_every_seconds: float. If not 0, checkpoints by time and not by updates.
        keep_checkpoints: int. How many of the newest to keep; 0 keeps all.
        log_every_steps: int. TensorBoard gets the averages of so many updates.
        jit_compile: bool. Whether XLA compiles the update.
        static_shapes: bool. Whether to trace the update for every shape of batches; else one trace
            is for all of them.
        eval_split: str. Name of what is evaluated, for the records.
        early_stopping: `EarlyStopping`, which also says what the best weights are.
        moving_average_decay: float. If not 0, weights are averaged, and it is the averages that are
            evaluated and decoded with.
        warm_start_from: str or None. Run or checkpoint to take weights from, in a new run.
        profile_steps: (first, last) updates to profile, or None.
    """

    train_steps: int = 250000
    eval_steps: int = 100
    eval_every_steps: int = 1000
    eval_throttle_seconds: float = 0.0
    save_every_seconds: float = 0.0
    keep_checkpoints: int = 20
    log_every_steps: int = 100
    jit_compile: bool = False
    static_shapes: bool = False
    eval_split: str = "dev"
    early_stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    moving_average_decay: float = 0.0
    warm_start_from: str | None = None
    profile_steps: tuple | None = None
