#!/usr/bin/env bash
# Deleting an iterator of `tf.data` can take up to a minute.
#
# Version:   tensorflow 2.21.0
# Behaviour: by default, a thread tunes each dataset at growing intervals, of up to a minute. If the
#            iterator is deleted before its dataset ends, Python sometimes waits until the current
#            interval ends. Without autotuning, there is no wait. The script makes groups of 12
#            iterators and deletes each iterator after 3 seconds, until one wait is long.
# Surprise:  the dataset only counts. It has no slow operation, no Python function and no file. The
#            wait also delays Ctrl-C and SIGTERM, because Python is waiting in a destructor.
# Output seen:
#   longest wait with autotuning on: more than 1 s
#   longest wait with autotuning off: at most 1 s
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import time

import tensorflow as tf

COUNT, SECONDS, ROUNDS, LONG = 12, 3, 8, 1


def counting(autotuning):
    options = tf.data.Options()
    options.autotune.enabled = autotuning
    numbers = tf.data.Dataset.range(10**9).map(lambda x: x + 1)
    return iter(numbers.prefetch(2).with_options(options))


def longest_wait(autotuning, rounds):
    """Return the first wait of more than LONG seconds, or the longest wait."""
    longest = 0
    for _ in range(rounds):
        iterators = [counting(autotuning) for _ in range(COUNT)]
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for iterator in iterators:
                next(iterator)
            time.sleep(0.05)
        del iterator
        while iterators:
            start = time.monotonic()
            iterators.pop()
            longest = max(longest, time.monotonic() - start)
            if longest > LONG:
                return longest
    return longest


waits = {"on": longest_wait(True, ROUNDS), "off": longest_wait(False, 2)}
for name, wait in waits.items():
    found = "more than" if wait > LONG else "at most"
    print(f"longest wait with autotuning {name}: {found} {LONG} s")
assert waits["on"] > LONG >= waits["off"]
END
