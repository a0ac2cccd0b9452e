"""The public functions for exporting models; see `ut_keras.inference.export`."""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
from ut_keras.inference.ctranslate2_export import export_ctranslate2
from ut_keras.inference.export import export_saved_model
from ut_keras.inference.litert_export import export_litert
from ut_keras.inference.onnx_export import export_onnx

__all__ = ["export_ctranslate2", "export_litert", "export_onnx", "export_saved_model"]
