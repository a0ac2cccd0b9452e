#!/usr/bin/env bash
# Grain's `WindowShuffleMapDataset` omits some elements and returns others twice.
#
# Version:   grain 0.2.18
# Behaviour: The class shuffles the indices inside of each window. If the length of the dataset is not
#            a multiple of `window_size`, the indices of the last window go beyond the end of the
#            dataset. Grain reads such an index modulo the length, so elements from the beginning of
#            the dataset replace elements of the last window.
# Surprise:  The docstring guarantees that no index is repeated within a window. An epoch has the right
#            number of elements, but not each element. With a window of twice the length of the
#            dataset, about a fourth of the elements are missing. No error and no warning. The class
#            `WindowShuffleIterDataset` returns all elements.
# Output seen (1000 elements):
#   WindowShuffleMapDataset, window_size=10:    1000 elements, 0 of 1000 missing
#   WindowShuffleMapDataset, window_size=64:    1000 elements, 14 of 1000 missing
#   WindowShuffleMapDataset, window_size=2000:  1000 elements, 254 of 1000 missing
#   WindowShuffleIterDataset, window_size=2000: 1000 elements, 0 of 1000 missing
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check grain==0.2.18
"$folder/bin/python" - 2>"$folder/log" <<'END' || {
import grain

numbers = grain.MapDataset.range(1000)
missing = []
for name, dataset, window_size in (
    ("WindowShuffleMapDataset", numbers, 10),
    ("WindowShuffleMapDataset", numbers, 64),
    ("WindowShuffleMapDataset", numbers, 2000),
    ("WindowShuffleIterDataset", numbers.to_iter_dataset(), 2000),
):
    shuffle = getattr(grain.experimental, name)
    elements = [int(element) for element in shuffle(dataset, window_size=window_size, seed=0)]
    missing.append(1000 - len(set(elements)))
    title = f"{name}, window_size={window_size}:"
    print(f"{title:43s} {len(elements)} elements, {missing[-1]} of 1000 missing")
    assert len(elements) == 1000
assert missing[0] == missing[3] == 0 and 0 < missing[1] < 100 < missing[2]
END
  cat "$folder/log" >&2
  exit 1
}
