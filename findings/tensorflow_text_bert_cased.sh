#!/usr/bin/env bash
# `BertTokenizer(lower_case=False)` makes one unknown token of two words with a no-break space.
#
# Version:   tensorflow-text 2.21.1
# Behaviour: With `lower_case=True`, U+00A0 and U+3000 separate words. With `lower_case=False`, they
#            are part of a word, so "10\u00a0km" becomes one `[UNK]`. `FastBertTokenizer` separates
#            the words in both cases, as BERT's own tokenizer does.
# Surprise:  The argument is for case and accents, but it also changes which characters separate
#            words. Tests with `lower_case=True` do not show this.
# Output seen (vocabulary: [UNK], 10, km):
#   BertTokenizer, cased:          [b'[UNK]']
#   BertTokenizer, lower case:     [b'10', b'km']
#   FastBertTokenizer, cased:      [b'10', b'km']
#   FastBertTokenizer, lower case: [b'10', b'km']
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 tensorflow-text==2.21.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import os
import tempfile

import tensorflow as tf
import tensorflow_text

vocabulary = ["[UNK]", "10", "km"]
seen = {}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "vocab.txt")
    with open(path, "w") as file:
        file.write("\n".join(vocabulary) + "\n")
    for name, lower in (("lower case", True), ("cased", False)):
        slow = tensorflow_text.BertTokenizer(path, lower_case=lower, token_out_type=tf.string)
        seen[f"BertTokenizer, {name}"] = slow.tokenize(["10\u00a0km"]).merge_dims(-2, -1)
        fast = tensorflow_text.FastBertTokenizer(
            vocabulary, lower_case_nfd_strip_accents=lower, token_out_type=tf.string
        )
        seen[f"FastBertTokenizer, {name}"] = fast.tokenize(["10\u00a0km"])
seen = {name: tokens.to_list()[0] for name, tokens in sorted(seen.items(), key=lambda x: x[0])}
for name, tokens in seen.items():
    print(f"{name + ':':30s} {tokens}")
    assert tokens == ([b"[UNK]"] if name == "BertTokenizer, cased" else [b"10", b"km"])
END
  cat "$folder/log" >&2
  exit 1
}
