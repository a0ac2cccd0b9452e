"""An export of `ut-exporter`, run as a server runs it: in a session, within limits."""

import contextlib
from collections.abc import Sequence
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.files import file_error

_SERVING, _MEASURING = "serving_default", "positions"
# {signature: ({input: (type, rank)}, {output: (type, rank)})}
_SIGNATURES = {
    _SERVING: ({"inputs": ("string", 1)}, {"outputs": ("string", 2), "scores": ("float32", 2)}),
    _MEASURING: ({"inputs": ("string", 1)}, {"lengths": ("int32", 1), "positions": ("int64", 1)}),
}


class Refusal(Exception):
    """A request that is not answered: HTTP status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Export:
    """A SavedModel that answers texts.

    Args:
        directory: str.
        limits: with timeout_secs of a search; max_text_bytes, which is also the most ids of a text;
            max_positions of all texts, each as long as the longest.
    Raises:
        UsageError: if it cannot be loaded or run, or is none of ours.
    """

    def __init__(self, directory: str, limits: Any) -> None:
        import tensorflow as tf

        with contextlib.suppress(ModuleNotFoundError):  # only exports with subwords need it
            import tensorflow_text  # noqa: F401  its operations

        self._tf = tf
        self._limits = limits
        self._options = tf.compat.v1.RunOptions(timeout_in_ms=1000 * limits.timeout_secs)
        # Operations of a search are too small to gain by more threads, see decoding.side_by_side.
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        self._signatures = self._load(directory)
        try:
            self([])
        except Refusal as refusal:
            raise UsageError(
                f"--serve_dir must be an export that answers. Received: {directory!r}: {refusal}"
            ) from refusal

    def __call__(self, texts: Sequence[bytes]) -> dict[str, Any]:
        """Answers for a list of bytes: dict from the name of an output to its array.

        Raises:
            Refusal: if it is too much, or takes too long.
        """
        found = self._run(_MEASURING, texts)
        longest = max(found["lengths"], default=0)
        if longest > self._limits.max_text_bytes:
            raise Refusal(
                413,
                f"A text must have at most {self._limits.max_text_bytes} symbols of the model's "
                f"vocabulary. Received: {longest}.",
            )
        positions = len(texts) * int(max(found["positions"], default=0))
        if positions > self._limits.max_positions:
            raise Refusal(
                413,
                "Texts x beams x the longest that a text and its answer may be must be at most "
                f"{self._limits.max_positions}. Received: {positions}.",
            )
        return self._run(_SERVING, texts)

    def _load(self, directory):
        """Loads it into the session; returns its signatures."""
        logger = self._tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # It warns that the function is of TensorFlow 1.
        try:
            with self._session.graph.as_default():
                loaded = self._tf.compat.v1.saved_model.load(self._session, ["serve"], directory)
        except Exception as error:  # whatever TensorFlow makes of a damaged one
            raise UsageError(
                "--serve_dir must be an export that can be loaded. Received: "
                f"{directory!r}: {file_error.line(error)}"
            ) from error
        finally:
            logger.setLevel(level)
        found = loaded.signature_def
        names = ", ".join(sorted(name for name in found if not name.startswith("__"))) or "none"
        for name, (inputs, outputs) in _SIGNATURES.items():
            there = found[name]  # an empty one, if there is none
            if self._kinds(there.inputs) != inputs or not (
                outputs.items() <= self._kinds(there.outputs).items()
            ):
                raise UsageError(
                    f"--serve_dir must be an export of ut-exporter, of this version: {name} takes "
                    f"{inputs} and gives {outputs}. Received: {directory!r}, signatures: {names}."
                )
        return found

    def _kinds(self, infos):
        """{name: (type, rank)} of the tensors of a signature."""
        return {
            name: (self._tf.as_dtype(info.dtype).name, len(info.tensor_shape.dim))
            for name, info in infos.items()
        }

    def _run(self, name, texts):
        signature = self._signatures[name]
        outputs = {key: signature.outputs[key].name for key in _SIGNATURES[name][1]}
        try:
            return self._session.run(
                outputs, {signature.inputs["inputs"].name: texts}, options=self._options
            )
        except self._tf.errors.DeadlineExceededError:
            raise Refusal(
                504, f"An answer takes more than {self._limits.timeout_secs} s."
            ) from None
        except self._tf.errors.OpError as error:
            raise Refusal(500, f"{type(error).__name__} in the model.") from error
