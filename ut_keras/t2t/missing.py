"""What a user's package asks for and does not get, in one line."""

from ut_keras.errors import UserError


class Missing(UserError, ImportError):
    """Something of T2T, or of TensorFlow 1, that is not here; the message names the nearest."""
