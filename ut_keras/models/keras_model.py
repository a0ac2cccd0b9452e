"""A `keras.Model` that Keras compiles, fits, saves and exports without settings."""

import functools
import warnings
from typing import Any, Self

import keras

from ut_keras import hparam_schema
from ut_keras.data.features import FeatureSpec
from ut_keras.files import file_error
from ut_keras.layers.basic import freezable, plugged_in
from ut_keras.models import exported_files, fitted_model, weight_files
from ut_keras.models.freezing import freeze, frozen

# Methods and attributes of `inference.saved_run.SavedRun` that a model does not have.
_NEEDS_TEXTS = ("translate", "classify", "class_scores", "observe", "dataset", "push", "encoders")


class KerasModel(freezable.Freezable, fitted_model.FittedModel):
    """A model with a config, an export signature and T2T's training loss.

    The input of the model is a dict of features. A subclass implements `forward`, `loss_terms` and
    `check_arguments`. The `__init__` of the subclass has the arguments of `Seq2Seq.__init__`, and
    `check_arguments` checks these arguments.
    """

    target_space_id: int
    num_steps: int | None
    check_arguments: Any

    def input_signature(
        self, batch_size: int | None = None, **lengths: int
    ) -> list[dict[str, keras.InputSpec]]:
        """Return the signature of a call, for `export`.

        Args:
            batch_size: int. None allows any batch size.
            **lengths: the length of a feature, such as `inputs=32`. A feature that is not named
                accepts any length.

        Returns:
            list with one dict from feature name to `keras.InputSpec`, int32.

        Raises:
            ValueError: if the model has no feature of a given name.
        """
        unknown = sorted(set(lengths) - set(self.input_features))
        if unknown:
            raise ValueError(
                f"The lengths must be for features in {self.input_features}. "
                f"Received: {', '.join(unknown)}."
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
        """The sorted names of the features that a call reads."""
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
        """Export the model like `keras.Model.export`, with a default signature.

        By default, the exported model accepts any batch size and any lengths.

        Raises:
            ValueError: if the format needs fixed shapes and `input_signature` is None, or a
                SavedModel would call Python functions. Also if LiteRT or onnxruntime cannot run the
                file, or computes other outputs than the model. In this case, the method writes no
                file. If onnxruntime is not installed, the method does not check an ONNX file. It
                does not check a LiteRT file with options of the converter, or with operations of
                TensorFlow (Flex).
        """
        filepath = file_error.checked_path(filepath, "filepath")
        if input_signature is None:
            if format != "tf_saved_model":
                free = (name for name in self.input_features if None in self._shape_of(name, None))
                lengths = ", ".join(f"{name}=32" for name in free)
                raise ValueError(
                    f"format={format!r} needs fixed shapes: pass, for example, input_signature="
                    f"model.input_signature(batch_size=1, {lengths}). "
                    "Received: no input_signature."
                )
            input_signature = self.input_signature()
        signature = exported_files.named_signature(self, input_signature)
        if self.overrides("call"):
            exported_files.check_outputs_of_call(self, signature[0])
        if format in exported_files.RUNTIMES:
            exported_files.write(self, filepath, format, signature, super().export, **kwargs)
        elif format == "tf_saved_model":
            exported_files.write_saved_model(filepath, signature, super().export, **kwargs)
        else:
            super().export(filepath, format=format, input_signature=signature, **kwargs)

    @functools.wraps(keras.Model.save)
    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        super().save(file_error.checked_path(filepath, "filepath"), *args, **kwargs)

    @functools.wraps(keras.Model.save_weights)
    def save_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        super().save_weights(file_error.checked_path(filepath, "filepath"), *args, **kwargs)

    @functools.wraps(keras.Model.load_weights)
    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        filepath = file_error.checked_path(filepath, "filepath")
        self._build_late_layers()
        if not skip_mismatch and not kwargs:
            shapes = [weight.shape for weight in self.weights]
            weight_files.check(filepath, shapes, self.save_weights)
        with warnings.catch_warnings():
            # If the file lacks a layer, this warning suggests that an older Keras wrote the file.
            # That is wrong. Another warning names the layers that were not loaded.
            warnings.filterwarnings("ignore", "Skipping nested container")
            super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)

    @property
    def dtype_policy(self) -> keras.DTypePolicy:
        """The dtype policy of the model and of its layers. It cannot be changed."""
        return super().dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, value: Any) -> None:
        """Raise ValueError for another policy. Keras would not pass it to the layers."""
        if keras.dtype_policies.get(value) != self.dtype_policy:
            raise ValueError(
                f"dtype_policy cannot be changed after a model is made. Received: {value!r}. Make "
                "a new model, with the hparam activation_dtype=bfloat16 or after a call of "
                "keras.config.set_dtype_policy. To copy the weights, call "
                "new_model.set_weights(model.get_weights())."
            )

    def quantize(self, mode: Any = None, **kwargs: Any) -> None:
        """Raise NotImplementedError, because Keras would skip every layer of this library.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "quantize is not supported for ut_keras models; the hparam "
            f"activation_dtype=bfloat16 computes in 16 bits. Received: mode={mode!r}."
        )

    def __getattr__(self, name: str) -> Any:
        """Raise `AttributeError`.

        For a name in `SavedRun`, the message says how to make a run.

        Python calls this method only if there is no such attribute.
        """
        if name in _NEEDS_TEXTS:
            raise AttributeError(
                f"{name} requires a run with text encoders. Received: a model, which reads and "
                "writes only ids. Make a run: run = SavedRun.of(model, problem, data_dir), or "
                f"run = ut_keras.load(path, problem=…, data_dir=…). Then use run.{name}."
            )
        return self.__getattribute__(name)  # raises the original error

    def get_config(self) -> dict[str, Any]:
        """Return the config. A subclass adds its further arguments of `__init__`."""
        return {
            "name": self.name,
            "hparams": self.hparams.to_dict(),
            "specs": {name: list(spec) for name, spec in self.specs.items()},
            "target_space_id": self.target_space_id,
            "trainable": self.trainable,
            "frozen": frozen(self),
            **({} if self.num_steps is None else {"num_steps": self.num_steps}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        specs = {
            name: FeatureSpec(size, modality, tuple(shape), *rest)
            for name, (size, modality, shape, *rest) in config["specs"].items()
        }
        hp = hparam_schema.from_dict(config["hparams"])
        cls.check_arguments(hp, specs)
        steps, space = config.get("num_steps"), config["target_space_id"]
        own = own_arguments(config)
        model = cls(hp, specs, space, num_steps=steps, name=config["name"], **own)
        model._build_late_layers()
        if not config.get("trainable", True):  # do not set True: parts may be frozen
            model.trainable = False
        freeze(model, config.get("frozen", ()))
        return model

    def _build_late_layers(self):
        """Build the layers of a subclass that are otherwise built at the first call.

        When Keras loads weights, it skips many layers that are not built, such as `Dense`, without
        an error. These layers would get new random weights at the first call.
        """
        late = [layer.name for layer in plugged_in.unbuilt_layers([self])]
        if not late:
            return
        features = {
            name: keras.KerasTensor(spec.shape, spec.dtype, name=name)
            for name, spec in self.input_signature()[0].items()
        }
        try:
            self(features)
        except Exception as error:
            raise ValueError(
                f"{type(self).__name__}.__init__ must build the layer {late[0]}, because a call "
                "with symbolic tensors fails. Otherwise, Keras cannot load the weights of this "
                f"layer. Received: {error}"
            ) from error


# The keys of `KerasModel.get_config`, and "dtype", which Keras adds.
_CONFIG = (
    "name",
    "hparams",
    "specs",
    "target_space_id",
    "trainable",
    "frozen",
    "num_steps",
    "dtype",
)


def own_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a user's subclass has added to the config of a model."""
    return {name: value for name, value in config.items() if name not in _CONFIG}
