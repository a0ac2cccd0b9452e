"""Encode samples with the encoders of a problem, many samples at a time."""

import contextlib
import copy
import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ut_keras.data import contract
from ut_keras.data.writing import example_batch
from ut_keras.text import text_encoder, word_vocabulary

# Number of samples that are encoded in one call. This is much faster than one call per sample.
_GROUP_SIZE = 8192
_RESERVED = {text_encoder.PAD: "padding", text_encoder.EOS: "the end of a text"}
# These encoders never give one of these ids for a text.
_WITHOUT_RESERVED_IDS = (
    text_encoder.SubwordTextEncoder,
    text_encoder.ByteTextEncoder,
    text_encoder.IntegerTextEncoder,
    text_encoder.ClassLabelEncoder,
)


@dataclasses.dataclass
class SampleEncoder:
    """Encodes the samples of a file.

    The result is the same as for `Problem.encode_samples`, but this class is faster. A process that
    writes many files reads the vocabulary only once.
    """

    problem: Any
    data_dir: str

    def __call__(self, samples: Iterable[dict[str, Any]]) -> Iterator[Any]:
        """Yield serialized records."""
        problem = self.problem
        if problem.encodes_samples_itself:
            yield from problem.encode_samples(samples, self.data_dir)
            return
        for columns in encode_in_groups(samples, self._encoders, problem.class_label_features):
            yield from example_batch.serialize(columns)

    @functools.cached_property
    def _encoders(self):
        return self.problem.feature_encoders(self.data_dir)


def encode_in_groups(
    samples: Iterable[dict[str, Any]],
    encoders: Mapping[str, text_encoder.TextEncoder],
    class_label_features: Collection[str],
) -> Iterator[dict[str, Any]]:
    """Encode many samples at a time and yield them as groups {"inputs": RaggedIds, …}.

    The ids of each sample end with EOS.
    """
    samples = iter(samples)
    while group := list(itertools.islice(samples, _GROUP_SIZE)):
        columns = {}
        for name, encoder in encoders.items():
            ids = encoder.encode_ragged(contract.texts_of(group, name))
            is_label = name in class_label_features
            columns[name] = ids if is_label else ids.append(text_encoder.EOS)
        yield columns


def with_vocabulary_notes(
    problem: Any,
    samples: Iterable[dict[str, Any]],
    encoders: Mapping[str, text_encoder.TextEncoder],
    max_cases: int | None,
) -> Iterable[dict[str, Any]]:
    """Print notes on words that are unknown or have reserved ids.

    Only the first samples are checked. The ids of padding and EOS are reserved. The return value
    is an iterable of all samples, including the first ones.

    Args:
        problem: the `Problem`. Its name and `vocabulary_title` appear in the notes.
        samples: iterable of dicts from feature to text.
        encoders: dict from feature to encoder.
        max_cases: int. Maximum number of samples that will be written. None means all samples.
    """
    classes = problem.class_label_features
    checked = {
        name: encoder
        for name, encoder in encoders.items()
        if name not in classes and not isinstance(encoder, _WITHOUT_RESERVED_IDS)
    }
    if not checked:
        return samples
    samples = iter(samples)
    most = word_vocabulary.MAX_TEXTS
    # The samples are copied, because `generate_samples` may yield one dict several times.
    first = list(map(copy.copy, itertools.islice(samples, min(most, max_cases or most))))
    for encoder in {id(encoder): encoder for encoder in checked.values()}.values():
        names = {name for name, other in checked.items() if other is encoder}
        texts = [
            text
            for sample in first
            for name, text in contract.validated(sample, contract.DICT, "A sample").items()
            if name in names and isinstance(text, str)
        ]
        for note in _notes(problem, encoder, texts):
            print(f"note: {problem.name}: {note}", flush=True)
    return itertools.chain(first, samples)


def _notes(problem, encoder, texts):
    """Return the notes about an encoder and some of the texts to encode."""
    filename = getattr(encoder, "filename", None)
    title = problem.vocabulary_title or filename or "the vocabulary"
    if isinstance(encoder, text_encoder.TokenTextEncoder):
        notes = word_vocabulary.reserved_line_warnings(encoder, title, texts)
        if encoder.oov_id is not None:
            notes += word_vocabulary.vocabulary_warnings(encoder, title, texts)
        if notes:
            return notes
    for text in texts:
        # The encoder may raise any error, for example for an unknown word. Data generation calls
        # the encoder again and then reports the error.
        with contextlib.suppress(Exception):
            ids = {int(i) for i in encoder.encode(text)}
            for special, meaning in _RESERVED.items():
                if special in ids:
                    return [
                        f"an encoder must not give the id {special}, which is {meaning}. Received: "
                        f"{type(encoder).__name__}, which gives this id for {text[:80]!r}."
                    ]
    return []
