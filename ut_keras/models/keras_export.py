"""What Keras' own export needs to be told of a model."""

from typing import Any

import keras


class KerasExport:
    """For a `keras.Model` with `specs`; comes before it in the bases.

    It exports one forward pass, from ids to logits: what answers texts is
    `ut_keras.export.export_saved_model`.
    """

    def input_signature(
        self, batch_size: int | None = None, **lengths: int
    ) -> list[dict[str, keras.InputSpec]]:
        """What a call takes, for `export`.

        Args:
            batch_size: int; None for any.
            lengths: positions by the name of a feature, such as `inputs=32`. Any where it is left
                out.
        Returns:
            list of one dict from name to `keras.InputSpec`, int32.
        Raises:
            ValueError: if there is no such feature.
        """
        unknown = sorted(set(lengths) - set(self.input_features))
        if unknown:
            raise ValueError(
                f"Lengths must be of {self.input_features}. Received: {', '.join(unknown)}."
            )
        return [
            {
                name: keras.InputSpec(
                    shape=(batch_size, *self._shape_of(name, lengths.get(name))),
                    dtype="int32",
                    name=name,
                )
                for name in self.input_features
            }
        ]

    @property
    def input_features(self) -> list[str]:
        """The names of the features that a call reads."""
        return sorted(self.specs)

    def _shape_of(self, name, length):
        spec = self.specs[name]
        if spec.modality == "class_label":
            return (1,)
        if spec.modality == "sentences":
            return (length, *spec.shape[1:])
        return (length,)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As Keras' export; without a signature, for any batch and any lengths.

        Raises:
            ValueError: if a format that needs shapes that are fixed gets no signature.
        """
        if input_signature is None:
            if format != "tf_saved_model":
                raise ValueError(
                    f"format={format!r} needs fixed shapes: pass, for example, input_signature="
                    f"model.input_signature(batch_size=1, {self._example_lengths()}). "
                    "Received: no input_signature."
                )
            input_signature = self.input_signature()
        super().export(filepath, format=format, input_signature=input_signature, **kwargs)

    def _example_lengths(self):
        free = [name for name in self.input_features if self._shape_of(name, None)[0] is None]
        return ", ".join(f"{name}=32" for name in free)

    def quantize(self, mode: Any = None, **kwargs: Any) -> None:
        """Refused: Keras would pass over every layer.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "quantize is not implemented for ut_keras models; hparams with "
            f"activation_dtype=bfloat16 compute in less. Received: mode={mode!r}."
        )
