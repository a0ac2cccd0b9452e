import math

import numpy as np
import pytest

from ut_keras.problems import perplexity
from ut_keras.text import text_encoder

TEXT = "Dude - that 's so cool ."


def subwords(texts):
    return text_encoder.SubwordTextEncoder.build_from_generator(texts, 40)


@pytest.mark.parametrize(
    "encoder",
    [
        text_encoder.ByteTextEncoder(),
        text_encoder.TokenTextEncoder(tokens=TEXT.split()),
        subwords([TEXT] * 3),
    ],
)
def test_count_words(encoder):
    ids = encoder.encode(TEXT)
    assert perplexity.count_words(encoder, ids + [1]) == 8
    assert perplexity.count_words(encoder, ids) == 7
    assert perplexity.count_words(encoder, [*ids, 1, 0, 0]) == 8
    # The packed example has two sentences. The second sentence has no EOS.
    assert perplexity.count_words(encoder, [*ids, 1, *ids]) == 15
    assert perplexity.count_words(encoder, [0, 0]) == 0
    assert perplexity.count_words(encoder, [1]) == 1


def test_per_word_perplexity_matches_reference():
    """The reference is exp(-sum log p / words).

    The sums go over two batches, whose examples have different lengths.
    """
    encoder = subwords([TEXT, "so long"])
    metric = perplexity.per_word(encoder)
    rng = np.random.default_rng(0)
    total = words = reference = 0
    for texts in ([TEXT, "so"], ["cool that", "so long", ""]):
        rows = [encoder.encode(text) + [1] for text in texts]
        # The batch has one more row, which consists only of padding.
        targets = np.zeros((len(rows) + 1, 2 + max(map(len, rows))), np.int32)
        for row, ids in enumerate(rows):
            targets[row, : len(ids)] = ids
        logits = rng.normal(size=(*targets.shape, encoder.vocab_size)).astype(np.float32)
        batch = metric.function(logits, targets, {})
        total, words = total + float(batch[0]), words + float(batch[1])
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        reference -= sum(
            log_p[row, position, i]
            for row, ids in enumerate(rows)
            for position, i in enumerate(ids)
        )
    assert words == 8 + 2 + 3 + 3 + 1
    assert metric.finish(total / words) == pytest.approx(math.exp(reference / 17), rel=1e-5)


def test_too_large_loss_gives_infinite_perplexity():
    assert perplexity.exp(1e4) == math.inf
