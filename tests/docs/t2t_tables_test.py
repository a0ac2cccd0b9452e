"""The pages for users of T2T agree with the code."""

import configparser
import importlib.util
import os
import re

import pytest

from ut_keras import hparam_schema
from ut_keras.hparam_schema import removed_fields
from ut_keras.hparam_schema.field import specs

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
DOCS, SCRIPTS = os.path.join(ROOT, "docs"), os.path.join(ROOT, "scripts")


def _load():
    spec = importlib.util.spec_from_file_location("t2t_tables", f"{SCRIPTS}/t2t_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = _load()


def _read(filename):
    with open(os.path.join(DOCS, filename), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("filename", TABLES.FILES)
def test_table_is_up_to_date(filename):
    assert _read(filename) == TABLES.FILES[filename](), "run: python scripts/t2t_tables.py"


def test_reasons_and_our_own_fields_are_real():
    fields = specs(hparam_schema.UniversalTransformerHParams) | specs(hparam_schema.LSTMHParams)
    fields |= specs(hparam_schema.NeuralGPUHParams)
    rejected = [name for name, spec in fields.items() if spec.facts.supported is not None]
    used = {TABLES.reason(name)[1] for name in rejected} - {None}
    assert used == set(TABLES.REASONS)
    assert set(TABLES.OURS) <= set(fields)


def test_page_names_commands_of_ut_keras_only():
    setup = configparser.ConfigParser()
    setup.read(os.path.join(ROOT, "setup.cfg"))
    scripts = setup["options.entry_points"]["console_scripts"].split("\n")
    commands = {line.split("=")[0].strip() for line in scripts if line}
    assert set(re.findall(r"\but-[a-z0-9-]+", _read("t2t.md"))) == commands


def test_page_names_existing_hparams_and_flags_only():
    from ut_keras.bin import flags

    page = _read("t2t.md")
    fields = (
        set(specs(hparam_schema.UniversalTransformerHParams))
        | removed_fields.T2T_BOOKKEEPING.keys()
    )
    fields |= set(specs(hparam_schema.LSTMHParams)) | set(specs(hparam_schema.NeuralGPUHParams))
    assigned = set(re.findall(r"`([a-z]\w+)=[^`]*`", page))
    assert assigned and assigned <= fields
    tables = (flags.TRAINER, flags.DATAGEN, flags.IMPORT_T2T, flags.DECODER, flags.BLEU)
    known = {flag.name for table in tables for flag in table}
    assert set(re.findall(r"--([a-z]\w+)", page)) - {"hp_NAME"} <= known
