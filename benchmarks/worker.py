"""A library or model that a benchmark runs in its own process.

The process reads requests from its standard input, one per line. To return a result, it prints a
line that begins with `RESULT `, followed by JSON.
"""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile

MAX_SHOWN_LINES = 20  # the error about a failed worker shows so many lines of its messages


def rounds(text):
    """Parse the flag `--rounds`, the number of times that a benchmark measures each side.

    The value must be at least 2, because quartiles require two rounds.
    """
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 2. Received: {text}.")
    return int(text)


def checkout_path(path):
    """Check that a path from the command line is a checkout of ut_keras, and return the path.

    If the path were not a checkout, Python would import the installed ut_keras, and a benchmark
    would compare this version with itself.
    """
    if not os.path.isfile(os.path.join(path, "ut_keras", "__init__.py")):
        raise argparse.ArgumentTypeError(f"must be a checkout of ut_keras. Received: {path}.")
    return path


def add_with_before(parser):
    """Add the option --with_before to an argument parser.

    The value of the option is the path of a checkout of an older version.
    """
    parser.add_argument(
        "--with_before",
        metavar="CHECKOUT",
        type=checkout_path,
        help="older version to compare with",
    )


def make_model(name, size, steps, dtype):
    """Return (model, optimizer, strategy) on one CPU, with the ut_keras that Python imports.

    All dropout rates are 0.1.

    Args:
        name: str, the name of a model. "adaptive_universal_transformer" is the Universal
            Transformer with adaptive halting.
        size: dict with the ints hidden, filter, heads and vocab.
        steps: int, the number of layers or steps.
        dtype: str, the `activation_dtype`.
    """
    import tensorflow as tf

    from ut_keras import hparams, models, optimizers

    depth = f"num_hidden_layers={steps}"
    if name != "transformer":
        depth = f"num_rec_steps={steps},act_max_steps={steps}"
    hp = hparams.get(
        f"{name}_base",
        f"hidden_size={size['hidden']},filter_size={size['filter']},num_heads={size['heads']},"
        f"{depth},layer_prepostprocess_dropout=0.1,attention_dropout=0.1,relu_dropout=0.1,"
        f"activation_dtype={dtype}",
    )
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        sizes = {"inputs": size["vocab"], "targets": size["vocab"]}
        model = models.get(name.removeprefix("adaptive_"), hp, vocab_sizes=sizes)
        optimizer = optimizers.get(hp)
        optimizer.build(model.trainable_variables)
    return model, optimizer, strategy


class Worker:
    """A process that runs one side of a benchmark.

    Args:
        command: list of str, the command of the process.
    """

    def __init__(self, command):
        self.command = command
        # A pipe for the messages could become full. The worker would then wait forever.
        self.messages = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.messages,
            text=True,
        )

    def send(self, text):
        """Send a request.

        Raises:
            SystemExit: if the process has ended.
        """
        try:
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit(self._close_and_explain()) from None

    def request(self, text):
        """Send a request and return the result.

        Raises:
            SystemExit: if the process ends without a result.
        """
        self.send(text)
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))
        raise SystemExit(self._close_and_explain())

    def _close_and_explain(self):
        """Close the worker, and return an error text with its exit code and its last messages."""
        code = self.process.wait()
        self.messages.seek(0)
        last = self.messages.read().splitlines()[-MAX_SHOWN_LINES:]
        self.close()
        first = f"A worker must return a result. Received: exit code {code} of this command:"
        return "\n".join([first, f"    {' '.join(self.command)}", "Its last messages:", *last])

    def close(self):
        """Wait until the process has ended."""
        with contextlib.suppress(BrokenPipeError):  # the process may have ended early
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.messages.close()
