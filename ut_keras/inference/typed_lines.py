"""`ut-decoder --decode_interactive`: a line in, a line out, with T2T's commands.

>Zwei Hunde spielen
Two dogs are playing
>dl=20          at most 20 positions beyond the length of the line
>q
"""

import sys
from typing import TYPE_CHECKING, Any, TextIO

from ut_keras.errors import DataError
from ut_keras.hparam import limits
from ut_keras.inference import decode_job, line_encoding

if TYPE_CHECKING:
    from ut_keras.inference.predictor import Predictor

_MOST = {"ns": limits.MOST_ROWS, "dl": limits.MOST_POSITIONS}
_HELP = """INTERACTIVE MODE  num_samples={ns}  decode_length={dl}
  ns=<num_samples>    (changes number of samples, default: 1)
  dl=<decode_length>  (changes decode length, default: 100)
  <{source}>                (decode)
  q                   (quit)"""


def loop(setup: Any, predictor: "Predictor", stdin: TextIO | None = None) -> None:
    """Reads lines until "q" or the end.

    Args:
        setup: `decode_setup.Setup`.
        predictor: `Predictor`.
        stdin: text stream to read instead of the terminal. Optional.
    """
    stdin = stdin or sys.stdin
    samples = min(max(1, setup.values["num_samples"]), _MOST["ns"])
    settings = {"ns": samples, "dl": setup.values["extra_length"]}
    source = "target_prefix" if setup.is_language_model else "source_string"
    print(_HELP.format(**settings, source=source))
    number = 0
    while True:
        line = _read(stdin)
        if line is None or line == "q":
            return
        if line[:3] in ("ns=", "dl=", "it="):
            _change(settings, line)
            continue
        number += 1
        try:
            line.encode("utf-8")  # the terminal lets other bytes pass
            ids = _encode(setup, number, line)
        except UnicodeEncodeError:
            print("Text must be UTF-8. Received: other bytes.")
            continue
        except DataError as error:
            print(error)
            continue
        if not ids:
            continue
        rows = [ids] * settings["ns"]
        for beams in decode_job.beams(setup, predictor, rows, number, extra_length=settings["dl"]):
            _show(beams, setup.values)


def _read(stdin):
    """A line; None at the end."""
    if stdin is sys.stdin and stdin.isatty():
        import readline  # noqa: F401  for editing and recall

        try:
            return input(">")
        except EOFError:
            return None
    line = stdin.readline()
    return line.rstrip("\r\n") if line else None


def _change(settings, line):
    name, value = line[:2], line[3:]
    if name == "it":
        if value != "text":
            print(f"The input type must be text. Received: {value!r}.")
        return
    least, most = int(name == "ns"), _MOST[name]
    is_short = value.isdecimal() and len(value) <= len(str(most))
    if not is_short or not least <= int(value) <= most:
        print(f"{name} must be a number from {least} to {most}. Received: {value[:80]!r}.")
    else:
        settings[name] = int(value)


def _encode(setup, number, line):
    if setup.is_language_model:
        return line_encoding.prompts("input", [line], setup.encoders["targets"], number)[0]
    return line_encoding.sources("input", [line], setup.encoders["inputs"], number)[0]


def _show(beams, values):
    if not values["return_beams"]:
        print(beams[0][0], flush=True)
        return
    for number, (text, score) in enumerate(beams):
        print(f'BEAM {number}:\n"{text}"\tScore:{score:f}', flush=True)
