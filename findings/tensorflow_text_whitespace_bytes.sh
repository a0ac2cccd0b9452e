#!/usr/bin/env bash
# `WhitespaceTokenizer` leaves bytes of a no-break space at the end of the word before it.
#
# Version:   tensorflow-text 2.21.1
# Behaviour: The tokenizer splits at all white space of Unicode. A character such as U+00A0 or
#            U+3000 has several bytes in UTF-8, but the tokenizer removes only the last byte. The
#            other bytes stay at the end of the word, which is then not valid UTF-8. The end in
#            `tokenize_with_offsets` is wrong in the same way. `UnicodeScriptTokenizer` removes all
#            bytes.
# Surprise:  "10\u00a0km" and "10 km" give different words, and the first word is in no vocabulary.
#            Texts from the web often contain U+00A0. A space or newline has one byte, so most tests
#            do not show this.
# Output seen:
#   "a b":      [b'a', b'b'], ends [1, 3]
#   "a\u00a0b": [b'a\xc2', b'b'], ends [2, 4], not UTF-8
#   "a\u3000b": [b'a\xe3\x80', b'b'], ends [3, 5], not UTF-8
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow==2.21.0 tensorflow-text==2.21.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import tensorflow_text

tokenizer = tensorflow_text.WhitespaceTokenizer()
seen = []
for text in ("a b", "a\u00a0b", "a\u3000b"):
    words, _, ends = (part.to_list()[0] for part in tokenizer.tokenize_with_offsets([text]))
    try:
        b"".join(words).decode()
        note = ""
    except UnicodeDecodeError:
        note = ", not UTF-8"
    name = (
        '"' + text.encode("ascii", "backslashreplace").decode().replace("\\xa0", "\\u00a0") + '":'
    )
    print(f"{name:11s} {words}, ends {ends}{note}")
    seen.append(words)
assert seen == [[b"a", b"b"], [b"a\xc2", b"b"], [b"a\xe3\x80", b"b"]]
END
  cat "$folder/log" >&2
  exit 1
}
