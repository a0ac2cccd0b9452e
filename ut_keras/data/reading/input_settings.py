"""What the input pipeline takes from the hparams."""

import dataclasses
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class InputSettings:
    """What the input pipeline takes from the hparams; the fields and defaults are T2T's.

    Fields:
        batch_size: int. Tokens in a batch, per replica.
        max_length: int. Training drops longer examples. The length of an example is that of its
            longest feature, EOS included. 0 stands for `batch_size`.
        min_length: int. Shorter examples are dropped, in evaluation too.
        min_length_bucket: int. The first bucket holds lengths below this.
        length_bucket_step: float > 1. Ratio of the buckets' boundaries.
        eval_drop_long_sequences: bool. Drop long examples in evaluation as well.
        max_input_seq_length, max_target_seq_length: int. Cut features to this length; 0 or
            less does not.
        use_fixed_batch_size: bool. One bucket, and `batch_size` counts examples.
        batch_shuffle_size: int. Whether training shuffles the batches too, besides the examples; 0
            or None for no. (In T2T it is how many; here it is all.)
        static_shapes: bool. Ours: pad every feature to the boundary of its bucket, so that there
            are only as many shapes as buckets (for TPUs, XLA; saves retracing). In training the
            last batch of a bucket is then filled up with repeated examples.
    """

    batch_size: int
    max_length: int = 0
    min_length: int = 0
    min_length_bucket: int = 8
    length_bucket_step: float = 1.1
    eval_drop_long_sequences: bool = False
    max_input_seq_length: int = 0
    max_target_seq_length: int = 0
    use_fixed_batch_size: bool = False
    batch_shuffle_size: int = 0
    static_shapes: bool = False

    @classmethod
    def from_hparams(cls, hparams: Any) -> Self:
        """Reads the fields of the same name; those that `hparams` lacks keep their default."""
        fields = [field.name for field in dataclasses.fields(cls)]
        found = {name: getattr(hparams, name) for name in fields if hasattr(hparams, name)}
        return cls(**found)

    @property
    def longest(self) -> int:
        """The length of the longest bucket."""
        return self.max_length or self.batch_size
