"""What the parts of a train loop are told, and when."""

from ut_keras.training.train_step import StepResult


class Hook:
    """A part of a `TrainLoop`. It does nothing at what it does not override.

    Parts are told in the order of the loop's list. What they raise ends the run.
    """

    def begins(self, step: int) -> None:
        """Training is about to begin, or to go on after a pause, at `step`."""

    def before_update(self, step: int) -> None:
        """Update number `step` comes next."""

    def after_update(self, step: int, result: StepResult) -> None:
        """Update number `step` is on its way; `result` is its `StepResult`, not read yet."""

    def before_save(self, step: int) -> None:
        """The state of `step` is to be saved: the last chance to find that it is no good."""

    def ends(self) -> None:
        """Nothing more comes, whatever the reason; called once, even after an error."""
