"""What a dataset is: a name, its features, how to generate it, how to read it.

    raw text --generate_samples--> {"inputs": str, "targets": str} --encoders--> ids + EOS
      --generate_data--> <filename>-train-00000-of-00010 --dataset--> batches

A new dataset is one file that subclasses `Problem`:

    @problem.register("my_problem")
    class MyProblem(problem.Problem):
        def feature_encoders(self, data_dir): ...
        def generate_samples(self, split, data_dir, tmp_dir, seed): ...

No TensorFlow is loaded before data are written or read.
"""

import dataclasses
import itertools
import os
import zlib

from ut_keras import registry
from ut_keras.data import features, text_encoder, tfrecords

REGISTRY = registry.Registry("problem")
_ENCODED_TOGETHER = 8192  # examples; many are encoded much faster than one


def register(name):
    """Decorator that files a `Problem` subclass under `name`."""
    return REGISTRY.register(name)


class Problem:
    """A dataset of (inputs, targets).

    Attributes:
        name: str. What it is registered as; set by `problems.get`.
        splits: tuple of str, those of "train", "dev" and "test" that there are.
        num_train_shards: int. Files that the train split is written to; the others get one.
        eval_metrics: tuple of str, T2T's names of metrics.
        target_space_id: int. T2T's id of the kind of target, which its models embed.
        class_label_features: tuple of str. The features that hold one class id, without EOS.
        max_length: int. Training drops longer examples; None leaves it to the hparams.
        paper: str. The paper and the table that it serves, for docs/problems.md.
        licence: str. What the data may be used for.
        raw_files: tuple of `download.RawFile`, what it is made of.
    """

    name = None
    splits = ("train", "dev")
    num_train_shards = 10
    eval_metrics = ("accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity")
    target_space_id = 0
    class_label_features = ()
    max_length = None
    paper = ""
    licence = ""
    raw_files = ()

    # What a dataset says about itself.

    @property
    def filename(self):
        """str. What the names of its files begin with."""
        return self.name

    def feature_encoders(self, data_dir):
        """Returns {"inputs": TextEncoder, "targets": TextEncoder}; no "inputs" in a language model.

        Raises:
            DataError: if a vocabulary file is missing.
        """
        raise NotImplementedError

    def feature_specs(self, data_dir):
        """Returns {"inputs": FeatureSpec, "targets": FeatureSpec}, what a model has to know."""
        return {
            name: features.FeatureSpec(
                encoder.vocab_size,
                "class_label" if name in self.class_label_features else "symbol",
            )
            for name, encoder in self.feature_encoders(data_dir).items()
        }

    def record_specs(self, data_dir):
        """Returns {feature: FeatureSpec} as in the files, where `preprocess` changes them."""
        return self.feature_specs(data_dir)

    def preprocess(self, records):
        """Makes the features of n examples of those of n records.

        Both are dicts of int32 tensors: ragged [n, (length)], class labels [n, 1].
        """
        return records

    # What is measured, besides `eval_metrics`.

    def feature_metrics(self, data_dir):
        """Returns {name: FeatureMetric}: metrics that read features, or ids of the vocabulary.

        Teacher-forced. Names with a "/" are kept out of the result line.
        """
        return {}

    def score_decoded(self, sources, references, hypotheses):
        """Scores what free decoding wrote.

        Args:
            sources, references, hypotheses: lists of str, of one length.
        Returns:
            dict from name to float.
        """
        return {}

    # Generation.

    def side_files(self):
        """Returns the names of the other files in data_dir, such as the vocabulary."""
        return ()

    def splits_to_generate(self, tmp_dir):
        """Returns the splits that there are raw data for."""
        return self.splits

    def prepare(self, data_dir, tmp_dir):
        """Checks that the raw data are there and writes the side files that are missing."""

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        """Yields the samples of a split as {"inputs": str, "targets": str}."""
        raise NotImplementedError

    def generate_encoded_samples(self, split, data_dir, tmp_dir, seed):
        """Yields the samples of a split as {"inputs": [int], "targets": [int]}, EOS included."""
        encoders = self.feature_encoders(data_dir)
        samples = iter(self.generate_samples(split, data_dir, tmp_dir, seed))
        while group := list(itertools.islice(samples, _ENCODED_TOGETHER)):
            columns = {}
            for name in group[0]:
                end = [] if name in self.class_label_features else [text_encoder.EOS]
                texts = [sample[name] for sample in group]
                columns[name] = [ids + end for ids in encoders[name].encode_batch(texts)]
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))

    def generate_data(self, data_dir, tmp_dir=None, seed=0):
        """Writes the TFRecord files and side files, those that are not there yet.

        Args:
            data_dir: str. Folder to write to; it is made.
            tmp_dir: str. Folder with raw data, for problems that have some.
            seed: int. The same seed gives the same files.

        Returns:
            dict from the name of each split that was written to its number of examples.

        Raises:
            DataError: if raw data are missing or not as expected; nothing half is left behind.
        """
        os.makedirs(data_dir, exist_ok=True)
        side_files_are_there = all(
            os.path.exists(os.path.join(data_dir, name)) for name in self.side_files()
        )
        missing = [
            split
            for split in self.splits_to_generate(tmp_dir)
            if not tfrecords.is_complete(data_dir, self.filename, split)
        ]
        if side_files_are_there and not missing:
            print(f"{self.name}: data found in {data_dir}, nothing to generate")
            return {}
        self.prepare(data_dir, tmp_dir)
        counts = {}
        for split in missing:
            # Python's own hash of a string differs from run to run.
            split_seed = zlib.crc32(f"{self.name} {split} {seed}".encode())
            samples = self.generate_encoded_samples(split, data_dir, tmp_dir, split_seed)
            num_shards = self.num_train_shards if split == "train" else 1
            paths = tfrecords.shard_paths(data_dir, self.filename, split, num_shards)
            counts[split] = tfrecords.write(
                samples, paths, shuffle_seed=split_seed if split == "train" else None
            )
        written = ", ".join(f"{count} {split}" for split, count in counts.items())
        print(f"{self.name}: wrote {written or 'vocabulary'} examples to {data_dir}")
        return counts

    # Reading.

    def dataset(self, split, data_dir, hparams, num_replicas=1, seed=None):
        """Returns one pass over a split, batched.

        Args:
            split: "train" (shuffled, without examples longer than `max_length`), "dev" or "test".
            data_dir: str. The folder that `generate_data` wrote.
            hparams: what the batching is read from, see `InputSettings`.
            num_replicas: int. Batches are this many times larger.
            seed: int. Makes shuffling repeatable.

        Returns:
            A `tf.data.Dataset` of (features, targets), int32 and 0-padded: features["inputs"]
            [B, S], features["targets"] [B, T], and the targets again.

        Raises:
            DataError: if data are missing, or no example is left.
        """
        # Before TensorFlow is loaded, which takes seconds.
        files = tfrecords.find(data_dir, self.filename, split)
        specs = self.record_specs(data_dir)

        from ut_keras.data import input_pipeline

        settings = input_pipeline.InputSettings.from_hparams(hparams)
        if self.max_length:
            settings = dataclasses.replace(settings, max_length=self.max_length)
        return input_pipeline.make_dataset(
            files,
            specs,
            settings,
            training=split == "train",
            num_replicas=num_replicas,
            seed=seed,
            preprocess=self.preprocess,
        )
