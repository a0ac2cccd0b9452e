"""Packed problems, whose records contain several examples.

ut_keras/data/reading/packing.py describes the records.

    class MyProblemPacked(packed.Packed, MyProblem):
        vocab_name = "my_problem"

As in T2T, the dev split is also packed. Therefore `accuracy_per_sequence` counts records instead of
examples. Decoding separates the examples again.
"""

from ut_keras.data import features
from ut_keras.data.reading import packing
from ut_keras.problems import problem
from ut_keras.problems.problem import Records, Samples, Specs

# Segments and positions are counters without an embedding, so their number is not limited.
_COUNTED = features.FeatureSpec(2**31 - 1)


class Packed(problem.Problem):
    """A mixin that packs several examples into a record.

    This class must precede the text problem in the list of bases.
    """

    packed_length = 256  # largest number of ids per record; T2T has the same attribute

    @property
    def max_length(self) -> int:  # type: ignore[override]
        return self.packed_length

    def record_specs(self, data_dir: str | None) -> Specs:
        specs = super().record_specs(data_dir)
        counted = (f"{name}_{part}" for name in specs for part in ("segmentation", "position"))
        return {**specs, **dict.fromkeys(counted, _COUNTED)}

    def encode_samples(self, samples: Samples, data_dir: str) -> Records:
        # The samples of one file are already shuffled, so a record does not consist of successive
        # samples of the corpus.
        return packing.pack(super().encode_samples(samples, data_dir), self.packed_length)
