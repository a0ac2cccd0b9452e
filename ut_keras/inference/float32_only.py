"""Rejects models that compute in 16 bits, for runtimes that cannot do the same."""

import keras


def check(model: keras.Model, runtime: str) -> None:
    """Raise `ValueError` for a model that computes in 16 bits.

    Args:
        model: the model to export.
        runtime: str, the name of the runtime in errors.
    """
    if (dtype := model.hparams.activation_dtype) != "float32":
        raise ValueError(
            f"activation_dtype must be float32 for an export to {runtime}. Received: {dtype}. "
            "Use ut-exporter --hparams=activation_dtype=float32. In Python, make a model with "
            "this hparam, and pass it the weights: new.set_weights(model.get_weights())."
        )
