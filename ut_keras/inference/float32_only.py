"""A check for exports to runtimes that require a model in float32."""

import keras


def check(model: keras.Model, runtime: str) -> None:
    """Raise `ValueError` for a model that does not compute in float32.

    Args:
        model: the model to export.
        runtime: str, the name of the runtime in errors.
    """
    if (dtype := model.hparams.activation_dtype) != "float32":
        raise ValueError(
            f"activation_dtype must be float32 for an export to {runtime}. Received: {dtype}. "
            "Use ut-exporter --hparams=activation_dtype=float32. In Python, make a new model with "
            "activation_dtype=float32, and copy the weights: new.set_weights(model.get_weights())."
        )
