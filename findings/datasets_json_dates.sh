#!/usr/bin/env bash
# Hugging Face datasets reads JSON strings that look like dates as datetime objects.
#
# Version:   datasets 4.4.1
# Behaviour: if all strings of a column are dates such as "1979-05-03", load_dataset("json") gives
#            the column the type timestamp, and the rows contain datetime objects. A single other
#            string, such as "?", makes all of them strings again. `Dataset.from_list` keeps the
#            same rows as strings, and so does load_dataset("csv").
# Surprise:  JSON distinguishes strings from other values, and the file has only strings. A model
#            that learns to write dates gets objects instead of its target texts, and str() of an
#            object is another text, "1979-05-03 00:00:00". The type can change when rows are added.
# Output seen:
#   in the file: '1979-05-03'
#   load_dataset: datetime.datetime(1979, 5, 3, 0, 0)
#   load_dataset with another string in the column: '1979-05-03'
#   from_list: '1979-05-03'
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check datasets==4.4.1
cd "$folder"
HF_HOME="$folder/cache" HF_HUB_OFFLINE=1 "$folder/bin/python" - <<'END'
import json

from datasets import Dataset, disable_progress_bars, load_dataset

disable_progress_bars()
rows = [{"inputs": "3 May 1979", "targets": "1979-05-03"}]
rows += [{"inputs": "5 April 09", "targets": "2009-04-05"}]


def first_target(rows, name):
    with open(name, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return load_dataset("json", data_files=name, split="train")[0]["targets"]


read = first_target(rows, "dates.jsonl")
mixed = first_target([*rows, {"inputs": "some day", "targets": "?"}], "mixed.jsonl")
listed = Dataset.from_list(rows)[0]["targets"]
print("in the file:", repr(rows[0]["targets"]))
print("load_dataset:", repr(read))
print("load_dataset with another string in the column:", repr(mixed))
print("from_list:", repr(listed))
assert not isinstance(read, str)
assert mixed == listed == rows[0]["targets"]
END
