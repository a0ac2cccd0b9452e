"""The public names of `ut_keras.inference.export` and `ut_keras.inference.litert_export`."""

from ut_keras.inference.export import export_saved_model
from ut_keras.inference.litert_export import export_litert

__all__ = ["export_litert", "export_saved_model"]
