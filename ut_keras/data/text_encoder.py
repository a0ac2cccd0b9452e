"""The public name of `ut_keras.text.text_encoder`."""

from ut_keras.text import text_encoder
from ut_keras.text.text_encoder import *  # noqa: F403

__all__ = text_encoder.__all__
