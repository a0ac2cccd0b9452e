from ut_keras import errors
from ut_keras.ops import xla_errors


def test_why_not_compiled_keeps_the_complete_message_of_ut_keras():
    message = f"A weight must be short. Received: {'x' * 300}."
    assert xla_errors.why_not_compiled(errors.UsageError(message)) == message[:-1]
    assert xla_errors.why_not_compiled(ValueError(f"\n  {'y' * 300}\nmore")) == "y" * 200
