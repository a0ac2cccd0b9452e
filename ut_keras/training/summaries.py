"""What a run leaves behind in numbers: TensorBoard's files and `metrics.jsonl`.

output_dir/events.out.…        training: losses, learning rate, speed, ponder times
output_dir/eval/events.out.…   evaluation, under T2T's tags
output_dir/metrics.jsonl       one JSON object per evaluation
"""

import json
import os
import time

import numpy as np
import tensorflow as tf


class Summaries:
    """Writes the numbers of a run.

    Args:
        output_dir: str.
        problem_name: str. T2T's tags hold it: "metrics-PROBLEM/targets/accuracy".
    """

    def __init__(self, output_dir, problem_name="problem"):
        self._output_dir = output_dir
        self._problem_name = problem_name
        self._writers = {}

    def write_training(self, step, scalars, ponder=None):
        """Writes what the recent updates say.

        Args:
            step: int.
            scalars: dict from tag to float.
            ponder: dict from stack name to (ponder_times, mask), for histograms.
        """
        with self._writer("").as_default(step):
            for tag, value in scalars.items():
                tf.summary.scalar(tag, value)
            for stack, (times, mask) in (ponder or {}).items():
                real = np.asarray(times)[np.asarray(mask) > 0]
                tf.summary.histogram(f"ponder_times/{stack}", real)
        self._writer("").flush()

    def write_evaluation(self, step, split, results, kind="eval"):
        """Writes an evaluation to TensorBoard and to metrics.jsonl.

        Args:
            step: int.
            split: str, such as "dev".
            results: dict from name to float.
            kind: str. Folder of the TensorBoard file.
        """
        with self._writer(kind).as_default(step):
            for name, value in results.items():
                tf.summary.scalar(self._tag(name), value)
        self._writer(kind).flush()
        record = {"step": step, "time": round(time.time(), 3), "split": split, **results}
        with open(os.path.join(self._output_dir, "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def close(self):
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _writer(self, folder):
        if folder not in self._writers:
            path = os.path.join(self._output_dir, folder)
            self._writers[folder] = tf.summary.create_file_writer(path)
        return self._writers[folder]

    def _tag(self, name):
        if name.startswith("loss") or "/" in name or name == "ponder_time":
            return name
        return f"metrics-{self._problem_name}/targets/{name}"
