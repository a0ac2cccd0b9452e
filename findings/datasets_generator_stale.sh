#!/usr/bin/env bash
# `Dataset.from_generator` returns old rows after the file that the generator reads has changed.
#
# Version:   datasets 4.4.1
# Behaviour: `from_generator` stores the rows in a cache folder. The cache key depends only on the
#            code and the arguments of the generator. Therefore the generator does not run again
#            after its file has changed. Later processes read the same cache.
# Surprise:  `load_dataset` also has a cache, but it notices that the file has changed. If the user
#            corrects the corpus, training still uses the old texts. No warning.
# Output seen:
#   first file ['old line']
#   from_generator, file changed: ['old line']
#   load_dataset, file changed: ['new line']
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  datasets==4.4.1
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import os
import pathlib
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())
os.environ["HF_HOME"] = str(folder / "cache")
import datasets

path = folder / "corpus.txt"


def lines(path):
    for line in open(path):
        yield {"text": line.strip()}


def from_generator():
    return list(datasets.Dataset.from_generator(lines, gen_kwargs={"path": str(path)})["text"])


def from_file():
    return list(datasets.load_dataset("text", data_files=str(path))["train"]["text"])


path.write_text("old line\n")
old = from_generator()
assert from_file() == old == ["old line"]
print("first file", old)
path.write_text("new line\n")
found, expected = from_generator(), from_file()
print("from_generator, file changed:", found)
print("load_dataset, file changed:", expected)
assert found == ["old line"] and expected == ["new line"]
END
  cat "$folder/log" >&2
  exit 1
}
