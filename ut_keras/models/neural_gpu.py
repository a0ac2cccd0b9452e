"""The Neural GPU, which predicts all tokens at once.

    ids ─ embed ─ S steps of gated convolutions over the S positions ─ logits of S positions

The model has no decoder. Position t of the source predicts the token at position t of the output.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.data.features import FeatureSpec
from ut_keras.decoding import parallel_output
from ut_keras.decoding.beam_search import Decoded
from ut_keras.decoding.options import Options
from ut_keras.hparam_schema import BasicHParams
from ut_keras.hparam_schema.neural_gpu_hparams import NeuralGPUHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.layers.neural_gpu import diagonal_stack, gated_stack
from ut_keras.metrics import lengths
from ut_keras.models import feature_checks, seq2seq
from ut_keras.models.output import Encoded


@keras.saving.register_keras_serializable(package="ut_keras")
class NeuralGPU(seq2seq.Seq2Seq):
    """T2T's `neural_gpu`.

    Arguments and call arguments are those of `Seq2Seq`. The hparams are `NeuralGPUHParams`. Logits
    are [B, S, V], also if the targets have another length T. As in T2T, the loss and the metrics
    pad logits or targets to the same length. So a target must not be longer than its source. As in
    T2T, the targets have their own embedding, but the model does not use this embedding.

    References: Kaiser & Sutskever 2016, Neural GPUs Learn Algorithms; T2T `models/neural_gpu.py`.
    """

    has_decoder = False
    needs_inputs = True
    writes_in_parallel = True
    hparams_class = NeuralGPUHParams
    example_set = "neural_gpu"

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        super().check_arguments(hparams, specs)
        if specs["inputs"].modality != "symbol":
            raise ValueError(
                f"{cls.__name__} requires inputs of tokens. "
                f"Received: inputs of {specs['inputs'].modality}."
            )

    # Parts.

    def _make_stacks(self) -> None:
        self.encoder = gated_stack.NeuralGPUStack(**self._stack_arguments())

    def _stack_arguments(self):
        hp = self.hparams
        return {
            "num_layers": hp.num_hidden_layers,
            "hidden_size": hp.hidden_size,
            "kernel_height": hp.kernel_height,
            "kernel_width": hp.kernel_width,
            "mask_padding": hp.conv_mask_padding,
            "dropout_rate": hp.dropout,
            "kernel_initializer": from_hparams.kernel_initializer(hp),
            "name": "encoder",
            "dtype": self.dtype_policy,
        }

    @property
    def unread_weights(self) -> tuple[Any, ...]:
        """The embedding of the targets, which has no gradient.

        T2T's checkpoints contain this embedding.
        """
        table = self.target_embedding
        if table is None or table is self.softmax or table is self.source_embedding:
            return ()
        return (table.embedding,)

    # The forward pass.

    @property
    def input_features(self) -> list[str]:
        return ["inputs"]

    def encode(self, features: Mapping[str, Any], inputs: StepInputs = PLAIN) -> Encoded:
        ids = self._ids(features, "inputs")
        padding_mask = ids != 0
        x = self._embed(self.source_embedding, ids)
        encoded = self.encoder.forward(x, inputs._replace(padding_mask=padding_mask))
        return Encoded(encoded, padding_mask)

    def match_lengths(self, logits: tf.Tensor, targets: tf.Tensor, *weights: Any) -> tuple:
        if self.class_labels:
            return (logits, targets, *weights)
        return lengths.pad_to_same_length(logits, targets, *weights)

    def _check_features(self, features):
        super()._check_features(features)
        feature_checks.check_one_example_per_row(features, "A Neural GPU")

    @property
    def why_source_padding_matters(self) -> str:
        if self.hparams.conv_mask_padding:
            return ""
        return f"the convolutions of {self.name} read the states of padding"

    # Decoding.

    def search(self, features: Mapping[str, Any], options: Options) -> Decoded:
        """Return the most likely token at every position, up to EOS, without a search.

        Args:
            features: dict with "inputs" [B, S].
            options: checked `Options`. Options of a search, such as beam_size, must have their
                default values. An output is at most as long as its source.

        Returns:
            `Decoded`: ids int32 [B, 1, S], 0 after EOS; scores float32 [B, 1], the log probability
            of the tokens up to EOS.

        Raises:
            ValueError: if an id is out of range, an option requires a search, or the targets are
                class labels.
        """
        self._check_writes_symbols("generate")
        feature_checks.check_ids(features, self.specs, ["inputs"])
        self.check_steps(options.num_steps, options.exit_threshold)
        return parallel_output.generate(self, features, options)


@keras.saving.register_keras_serializable(package="ut_keras")
class DiagonalNeuralGPU(NeuralGPU):
    """T2T's `diagonal_neural_gpu`, the improved Neural GPU with two errors of T2T.

    First, T2T returns the state after the first step. Second, T2T shifts channels along an axis of
    size 1. With the hparams `diagonal_final_state=last` and `diagonal_shift_axis=length`, the model
    corrects both errors and follows the paper.

    References: Freivalds & Liepins 2017, Improving the Neural GPU Architecture for Algorithm
        Learning; T2T `models/neural_gpu.py`.
    """

    def _make_stacks(self) -> None:
        hp = self.hparams
        self.encoder = diagonal_stack.DiagonalNeuralGPUStack(
            **self._stack_arguments(),
            final_state=hp.diagonal_final_state,
            shift_axis=hp.diagonal_shift_axis,
        )
