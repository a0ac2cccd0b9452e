"""A small run that reads TFRecord files and that survival_test.py kills at chosen moments.

The run uses all parts that have a state: dropout, shuffling, length buckets, Adam, evaluation,
free decoding and checkpoints.
"""

import concurrent.futures
import contextlib
import glob
import json
import os
import re
import resource
import signal
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf

from tests.training import toy
from ut_keras import optimizers
from ut_keras.checkpoints import checkpoint, checkpoint_files
from ut_keras.data import features, tfrecords
from ut_keras.data.reading import input_pipeline
from ut_keras.files import metrics_file, whole_file
from ut_keras.inference import decode_hparams, free_decoding
from ut_keras.process import interruption
from ut_keras.training import (
    distribution,
    reports,
    summaries,
)
from ut_keras.training import trainer as trainer_lib

TRAIN_STEPS = 20
EVERY = 5
_SPECS = {name: features.FeatureSpec(toy.VOCAB_SIZE) for name in ("inputs", "targets")}


def write_data(data_dir):
    """Write examples for about seven batches per epoch.

    Seven is not a multiple of `EVERY`, so the run also saves checkpoints inside an epoch.
    """
    random = np.random.RandomState(0)
    examples = []
    for _ in range(50):
        ids = [*random.randint(2, toy.VOCAB_SIZE, random.randint(1, 12)).tolist(), 1]
        examples.append({"inputs": ids, "targets": ids})
    tfrecords.write(examples, tfrecords.shard_paths(data_dir, "toy", "train", 3))
    tfrecords.write(examples[:20], tfrecords.shard_paths(data_dir, "toy", "dev", 1))


def train(data_dir, output_dir, moment=None, full_from=None, full_to=None):
    """Start or resume training in this process, and write all output to output_dir/log.

    Args:
        moment: str, a key of `MOMENTS` or "beside the steps". The process kills itself at this
            moment.
        full_from, full_to: int. The disk is full from step `full_from` to step `full_to` - 1.
            Without `full_to`, the disk stays full.
    """
    with open(os.path.join(output_dir, "log"), "a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    if moment:
        {**MOMENTS, "beside the steps": beside_the_steps}[moment]()
    if full_from:
        _fill_disk(full_from, full_to)
    trainer = _trainer(output_dir)
    dev = _dataset(data_dir, "dev")
    try:
        trainer.train_eval_and_decode(
            lambda epoch: _dataset(data_dir, "train", seed=epoch), lambda: dev
        )
    except interruption.Interrupted as interrupted:
        print(interrupted, flush=True)
        os._exit(interrupted.exit_code)
    except checkpoint.SaveError as error:
        print(error, flush=True)
        os._exit(2)


def state(path):
    """Return {name: array} of a checkpoint without the counter of saves and the object graph."""
    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_dtype_map()
    return {
        name: reader.get_tensor(name)
        for name in names
        if not name.startswith(("save_counter", "_CHECKPOINTABLE"))
    }


def events(output_dir, folder):
    """Return the (step, tag) pairs that TensorBoard shows, without speeds and waiting times.

    TensorBoard reads the files in the order of their names. If a step occurs again, TensorBoard
    discards the earlier values of this step and of all later steps.
    """
    shown: dict[str, list] = {}
    for path in sorted(glob.glob(os.path.join(output_dir, folder, "events.out.*"))):
        with contextlib.suppress(tf.errors.DataLossError):  # A file may end too early.
            for event in tf.compat.v1.train.summary_iterator(path):
                for value in event.summary.value:
                    steps = shown.setdefault(value.tag, [])
                    steps[:] = [step for step in steps if step < event.step] + [event.step]
    return sorted(
        (step, tag)
        for tag, steps in shown.items()
        for step in steps
        if not re.search("per_second|wait", tag)
    )


def _dataset(data_dir, split, seed=None):
    settings = input_pipeline.InputSettings(batch_size=96, max_length=32, batch_shuffle_size=8)
    return input_pipeline.make_dataset(
        tfrecords.find(data_dir, "toy", split), _SPECS, settings, split == "train", seed=seed
    )


def _trainer(output_dir):
    keras.utils.set_random_seed(1)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = toy.ToyModel(dropout=0.3)
        optimizer = optimizers.Adam(0.01)
    settings = {
        "train_steps": TRAIN_STEPS,
        "eval_every_steps": EVERY,
        "log_every_steps": 4,
        "keep_checkpoints": 3,
    }
    decode = decode_hparams.parse("batch_size=8,num_samples=8")
    return toy.trainer_of(
        model,
        optimizer,
        strategy,
        output_dir,
        settings,
        decode_settings=decode,
        names=("accuracy",),
    )


def _fill_disk(first, stop):
    """Limit the sizes of files from step `first` to step `stop` - 1.

    Checkpoint files may have at most 1,000 bytes, and metrics.jsonl may grow by at most 30 bytes.
    """

    def limited(owner, name, step_of, size_of):
        plain = getattr(owner, name)

        def function(*args, **kwargs):
            if first <= step_of(*args, **kwargs) < (stop or TRAIN_STEPS + 1):
                resource.setrlimit(resource.RLIMIT_FSIZE, (size_of(args), resource.RLIM_INFINITY))
            try:
                return plain(*args, **kwargs)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

        setattr(owner, name, function)

    # The limit applies to the complete process, so no other thread may write at the same time.
    start_saving = checkpoint.Checkpoints.start_saving

    def start_and_wait(checkpoints):
        start_saving(checkpoints)
        concurrent.futures.wait([checkpoints._writing])

    checkpoint.Checkpoints.start_saving = start_and_wait
    limited(
        checkpoint_files,
        "save",
        step_of=lambda checkpoint, directory, step, keep: step,
        size_of=lambda args: 1000,
    )
    limited(
        metrics_file,
        "append",
        step_of=lambda output_dir, record: record["step"],
        size_of=lambda args: os.path.getsize(metrics_file.path(args[0])) + 30,
    )


# The following functions make the process kill itself at a chosen moment.


def _kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_instead_of(owner, name, calls=1):
    """Kill the process at the start of call number `calls` of the function `owner.name`."""
    plain = getattr(owner, name)
    left = iter(range(calls - 1, -1, -1))

    def counted(*args, **kwargs):
        if not next(left):
            _kill()
        return plain(*args, **kwargs)

    setattr(owner, name, counted)


def _within_a_line():
    def torn(output_dir, record):
        line = json.dumps(record)
        with open(metrics_file.path(output_dir), "a") as file:
            file.write(line[: len(line) // 2])
            file.flush()
            _kill()

    metrics_file.append = torn


def _while_rewinding():
    # An earlier kill left an incomplete line. This kill comes just before the run removes the line.
    plain = whole_file.move_into_place

    def put(pairs):
        if pairs[0][1].endswith(metrics_file.FILENAME):
            _kill()
        plain(pairs)

    whole_file.move_into_place = put


def beside_the_steps():
    """Kill the process two updates after the start of the second save.

    The file `checkpoint` does not list the second checkpoint at this time.
    """
    writing = threading.Event()
    plain = reports.Reports.add

    def add(self, step, *arguments):
        if step == 2 * EVERY + 1:
            assert writing.wait(60)
        plain(self, step, *arguments)
        if step == 2 * EVERY + 2:
            print(f"killed at step {step}", flush=True)
            _kill()

    plain_record = checkpoint_files.record

    def record(directory, paths):
        if not paths[-1].endswith(f"-{2 * EVERY}"):
            return plain_record(directory, paths)
        writing.set()
        return time.sleep(600)

    reports.Reports.add = add
    checkpoint_files.record = record
    # The run only trains, because an evaluation would wait until the checkpoint is complete.
    trainer_lib.Trainer.train_eval_and_decode = trainer_lib.Trainer.train


MOMENTS = {
    "before a checkpoint's files get their names": lambda: _kill_instead_of(
        whole_file, "move_into_place", calls=3
    ),
    "before the second checkpoint is named": lambda: _kill_instead_of(
        checkpoint_files, "record", calls=2
    ),
    "before an old checkpoint is removed": lambda: _kill_instead_of(checkpoint_files, "_remove"),
    "before the evaluation": lambda: _kill_instead_of(trainer_lib.Trainer, "_evaluate"),
    "before an evaluation is recorded": lambda: _kill_instead_of(
        summaries.Summaries, "write_evaluation"
    ),
    "within a line": _within_a_line,
    "while records are taken back": _while_rewinding,
    "between evaluation and decoding": lambda: _kill_instead_of(trainer_lib.Trainer, "_decode"),
    "before the best weights are written": lambda: _kill_instead_of(trainer_lib, "save_best"),
    "while decoding": lambda: _kill_instead_of(free_decoding.FreeDecoder, "__call__"),
}
