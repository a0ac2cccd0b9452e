"""From the samples of T2T's problems of text to ids.

References: T2T `text_problems.text2text_generate_encoded`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ut_keras.contract import text_of
from ut_keras.t2t import text_encoder
from ut_keras.text.ragged_ids import RaggedIds
from ut_keras.text.text_encoder import TextEncoder

_ENCODED_TOGETHER = 8192  # samples; many are encoded much faster than one


def text2text_generate_encoded(
    sample_generator: Iterable[dict[str, Any]],
    vocab: TextEncoder,
    targets_vocab: TextEncoder | None = None,
    has_inputs: bool = True,
    inputs_prefix: str = "",
    targets_prefix: str = "",
) -> Iterator[dict[str, Any]]:
    """Yields samples with the ids of "inputs" and "targets", EOS included."""
    encoders = {"inputs": vocab} if has_inputs else {}
    encoders["targets"] = targets_vocab or vocab
    prefixes = {"inputs": inputs_prefix, "targets": targets_prefix}

    def texts_of(sample):
        return [prefixes[name] + text_of(sample, name) for name in encoders]

    for sample, columns in encode(sample_generator, encoders, texts_of):
        yield {**sample, **dict(zip(encoders, columns, strict=True))}


def encode(
    samples: Iterable[dict[str, Any]],
    encoders: dict[str, TextEncoder],
    texts_of: Callable[[dict[str, Any]], list[str]],
) -> Iterator[tuple[dict[str, Any], tuple[list[int], ...]]]:
    """Yields (sample, the ids of its texts), many samples at a time."""
    rest = iter(samples)
    while group := list(itertools.islice(rest, _ENCODED_TOGETHER)):
        texts = zip(*map(texts_of, group), strict=True)
        columns = [
            _ragged(encoder, column).append(text_encoder.EOS_ID).to_lists()
            for encoder, column in zip(encoders.values(), texts, strict=True)
        ]
        yield from zip(group, zip(*columns, strict=True), strict=True)


def _ragged(encoder, texts):
    if hasattr(encoder, "encode_ragged"):
        return encoder.encode_ragged(texts)
    return RaggedIds.from_lists([encoder.encode(text) for text in texts])
