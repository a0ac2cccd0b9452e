"""The encoder of the Transformer alone, for classes and tags."""

from collections.abc import Mapping
from typing import Any

import keras

from ut_keras.data.features import FeatureSpec
from ut_keras.hparam import BasicHParams
from ut_keras.models import position_signals, transformer


@keras.saving.register_keras_serializable(package="ut_keras")
class TransformerEncoder(transformer.Transformer):
    """An encoder without decoder, for classification.

    Arguments and calls are those of `Transformer`; only "inputs" are read. Logits are [B, C] for
    class labels, of what `class_label_pooling` reads from the source positions, and [B, S, V], one
    per source position, for symbols.

    References: T2T `models/transformer.py` `TransformerEncoder`.
    """

    has_decoder = False

    @classmethod
    def check_arguments(cls, hparams: BasicHParams, specs: Mapping[str, FeatureSpec]) -> None:
        if "inputs" not in specs:
            raise ValueError(
                "An encoder alone needs a problem with inputs, and no language model. "
                f"Received: a problem with {', '.join(sorted(specs))}."
            )
        super().check_arguments(hparams, specs)

    @property
    def input_features(self) -> list[str]:
        return ["inputs"]

    def _decoder(self):
        return None

    def forward(
        self,
        features: Mapping[str, Any],
        training: bool | None = None,
        record_attention: bool = False,
    ) -> transformer.ModelOutput:
        self._check_features(features)
        if training:
            layer = self.source_position
            features = position_signals.with_places(features, layer, self.specs)
        encoded = self.encode(features, training, record_attention)
        return transformer.ModelOutput(
            self.logits(encoded.stack.output, padding_mask=encoded.padding_mask),
            encoded.stack,
            None,
            encoded.padding_mask,
        )
