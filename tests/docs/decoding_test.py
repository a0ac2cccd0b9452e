"""Commands in README.md and docs/decoding.md, and the table of decode hparams, are valid."""

import os
import re
import shlex

import pytest

from ut_keras.bin import command_line, flags
from ut_keras.inference import decode_hparams

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
TABLES = {
    "ut-decoder": flags.DECODER,
    "ut-avg-checkpoints": flags.AVG_CHECKPOINTS,
    "ut-bleu": flags.BLEU,
}


def _read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def _commands():
    text = _read("README.md") + _read("docs", "decoding.md")
    text = re.sub(r"^\$ ", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    return [line for line in text.splitlines() if line.startswith(tuple(f"{c} " for c in TABLES))]


@pytest.mark.parametrize("line", _commands())
def test_commands_can_be_parsed(line):
    words = shlex.split(line, comments=True)
    args = command_line.parse(TABLES[words[0]], words[1:], words[0], "")
    decode_hparams.parse(getattr(args, "decode_hparams", ""), decode_hparams.DECODER)


def test_every_command_is_shown():
    assert {line.split()[0] for line in _commands()} == set(TABLES)


def test_table_of_decode_hparams():
    page = _read("docs", "decoding.md")
    section = page.partition("## `--decode_hparams`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", section, flags=re.MULTILINE)
    shown = {}
    for names, defaults in rows:
        names = re.findall(r"\w+", names)
        shown.update(zip(names, defaults.split(", "), strict=True))
    assert shown == {
        name: f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        for name, field in decode_hparams.DECODER.items()
    }
