"""A side of a benchmark in a process of its own: it reads lines, and answers `RESULT ` and JSON."""

import argparse
import json
import subprocess


def rounds(text):
    """A number of rounds on a command line, which has quartiles."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 2. Received: {text}.")
    return int(text)


class Worker:
    """A process.

    Args:
        command: list of str.
    """

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def send(self, text):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def request(self, text):
        """What it answers."""
        self.send(text)
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))
        raise SystemExit(
            f"{' '.join(self.command)} must run in an environment with the packages of its "
            f"requirements.txt. Received: exit code {self.process.wait()}."
        )

    def close(self):
        self.process.stdin.close()
        self.process.wait()
