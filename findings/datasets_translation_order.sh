#!/usr/bin/env bash
# Hugging Face datasets sorts the languages of a Translation column instead of keeping its order.
#
# Version:   datasets 4.4.1
# Behaviour: a column declared `Translation(languages=["en", "de"])` and filled with dicts in that
#            order yields dicts in alphabetical order, "de" first. The same rows without the
#            declared type keep "en" first.
# Surprise:  the features still print languages=['en', 'de']. Code that unpacks the values as
#            (source, target) silently trains the opposite direction. This happens only for some
#            pairs, because others, such as "de", "en", are already in alphabetical order.
# Output seen:
#   declared: ['en', 'de']
#   given: ['a dog', 'ein Hund']
#   yielded: ['ein Hund', 'a dog']
#   yielded without the type: ['a dog', 'ein Hund']
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check datasets==4.4.1
HF_HOME="$folder/cache" HF_HUB_OFFLINE=1 "$folder/bin/python" - <<'END'
from datasets import Dataset, Features, Translation

rows = [{"translation": {"en": "a dog", "de": "ein Hund"}}]
features = Features({"translation": Translation(languages=["en", "de"])})
typed = Dataset.from_list(rows, features=features)
untyped = Dataset.from_list(rows)

print("declared:", typed.features["translation"].languages)
print("given:", list(rows[0]["translation"].values()))
print("yielded:", list(typed[0]["translation"].values()))
print("yielded without the type:", list(untyped[0]["translation"].values()))
assert typed.features["translation"].languages == ["en", "de"]
assert list(typed[0]["translation"].values()) == ["ein Hund", "a dog"]
assert list(untyped[0]["translation"].values()) == ["a dog", "ein Hund"]
END
