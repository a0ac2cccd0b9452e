import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.decoding import beam_search, constraints, generate
from ut_keras.decoding.options import NUMBERS, Options

EOS = 1


def _language(batch_size, vocab_size, max_length, seed=0):
    """Return {(example, prefix): random log probabilities of the next token}."""
    random = np.random.RandomState(seed)
    tables = {}
    for row in range(batch_size):
        for length in range(max_length):
            for beginning in itertools.product(range(vocab_size), repeat=length):
                logits = random.normal(scale=1.5, size=vocab_size)
                tables[row, beginning] = logits - np.log(np.exp(logits).sum())
    return tables


def _next_logits(tables, batch_size, vocab_size):
    def look_up(ids, position):
        beams = len(ids) // batch_size
        rows = []
        for number, symbols in enumerate(ids):
            assert not symbols[position:].any()  # the search has not yet written these positions
            rows.append(tables[number // beams, tuple(symbols[:position])])
        return np.float32(rows) + 3.0  # logits may differ from log probabilities by a constant

    def next_logits(ids, position):
        logits = tf.numpy_function(look_up, [ids, position], tf.float32)
        logits.set_shape([None, vocab_size])
        return logits

    return next_logits


def _log_prob(tables, row, symbols):
    return sum(tables[row, symbols[:i]][symbol] for i, symbol in enumerate(symbols))


def _penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def _results(vocab_size, max_length):
    """Yield all sequences that contain exactly one EOS, at the end."""
    others = [symbol for symbol in range(vocab_size) if symbol != EOS]
    for length in range(max_length):
        for beginning in itertools.product(others, repeat=length):
            yield (*beginning, EOS)


def _padded(symbols, length):
    return [*symbols, *[0] * (length - len(symbols))]


def _task(next_logits, batch_size, max_length, constrain=None, limits=None, eos_bonus=0.0):
    """Return a `Task` without a cache.

    `next_logits` is a function from (ids [N, L], position) to logits [N, V].
    """

    def of_query(query, cache):
        shape = tf.shape(query.ids)
        logits = next_logits(tf.reshape(query.ids, [-1, shape[2]]), query.position)
        return tf.reshape(logits, [shape[0], shape[1], logits.shape[-1]]), cache

    limits = tf.fill([batch_size], max_length) if limits is None else tf.constant(limits)
    return beam_search.Task(of_query, (), batch_size, max_length, limits, constrain, eos_bonus)


def _greedy(next_logits, batch_size, max_length):
    return beam_search.greedy_search(_task(next_logits, batch_size, max_length))


def _beam(next_logits, batch_size, beam_size, max_length, alpha):
    return beam_search.beam_search(_task(next_logits, batch_size, max_length), beam_size, alpha)


def _search(tables, batch_size, vocab_size, beam_size, max_length, alpha, graph=False):
    function = tf.function(_beam, autograph=False) if graph else _beam
    next_logits = _next_logits(tables, batch_size, vocab_size)
    return function(next_logits, batch_size, beam_size, max_length, alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_beam_search_with_enough_beams_finds_all_best_outputs(alpha, seed):
    """With a beam for every prefix, the search returns all outputs in the order of their scores."""
    batch_size, vocab_size, max_length, beam_size = 2, 3, 3, 7
    tables = _language(batch_size, vocab_size, max_length, seed)
    got = _search(tables, batch_size, vocab_size, beam_size, max_length, alpha)
    for row in range(batch_size):
        scored = sorted(
            (
                (_log_prob(tables, row, symbols) / _penalty(len(symbols), alpha), symbols)
                for symbols in _results(vocab_size, max_length)
            ),
            reverse=True,
        )
        assert len(scored) == beam_size
        expected = [_padded(symbols, max_length) for _, symbols in scored]
        np.testing.assert_array_equal(got.ids[row], expected)
        np.testing.assert_allclose(got.scores[row], [score for score, _ in scored], rtol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_search_stops_at_the_maximum_output_length_of_each_example(beam_size):
    """An example has the same outputs alone and in a batch, even if its outputs are unfinished."""
    limits, vocab_size, longest = [4, 1, 2, 0], 5, 4
    tables = _language(len(limits), vocab_size, longest)

    def search(tables, limits):
        next_logits = _next_logits(tables, len(limits), vocab_size)
        task = _task(next_logits, len(limits), longest, limits=limits)
        if beam_size == 1:
            return beam_search.greedy_search(task)
        return beam_search.beam_search(task, beam_size, 0.6)

    together = search(tables, limits)
    for row, limit in enumerate(limits):
        of_row = {(0, symbols): table for (i, symbols), table in tables.items() if i == row}
        alone = search(of_row, [limit])
        width = alone.ids.shape[2]
        assert width <= limit
        np.testing.assert_array_equal(together.ids[row, :, :width], alone.ids[0])
        assert not np.any(together.ids[row, :, width:])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-5)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("alpha", "bonus"), [(0.6, 0.0), (0.6, 2.5), (0.0, 2.5), (2.0, 4.0), (-1.0, 0.0), (-1.0, 2.5)]
)
def test_beam_search_matches_reference(alpha, bonus, graph):
    """The search matches a simple reference implementation.

    At each step, the reference extends every unfinished hypothesis and takes the 4 best candidates.
    It keeps the 2 best unfinished candidates and the 2 best finished hypotheses so far. With a
    bonus for EOS or a negative alpha, the score of a hypothesis can increase at later steps.
    """
    batch_size, vocab_size, max_length, beam_size = 40, 5, 4, 2
    tables = _language(batch_size, vocab_size, max_length)
    next_logits = _next_logits(tables, batch_size, vocab_size)
    constrain = functools.partial(constraints.eos_penalty, penalty=-bonus) if bonus else None
    task = _task(next_logits, batch_size, max_length, constrain, eos_bonus=bonus)
    search = functools.partial(beam_search.beam_search, task, beam_size, alpha)
    got = tf.function(search, autograph=False)() if graph else search()
    for row in range(batch_size):

        def gained(symbols, row=row):
            return _log_prob(tables, row, symbols) + bonus * (symbols[-1] == EOS)

        alive, finished = [()], []
        for length in range(1, max_length + 1):
            longer = [(*beginning, s) for beginning in alive for s in range(vocab_size)]
            longer.sort(key=gained, reverse=True)
            candidates = longer[: 2 * beam_size]
            finished += [
                (gained(symbols) / _penalty(length, alpha), symbols)
                for symbols in candidates
                if symbols[-1] == EOS
            ]
            finished = sorted(finished, reverse=True)[:beam_size]
            alive = [symbols for symbols in candidates if symbols[-1] != EOS][:beam_size]
        finished += [(-beam_search.INFINITY, ())] * (beam_size - len(finished))
        width = got.ids.shape[-1]
        np.testing.assert_array_equal(
            got.ids[row], [_padded(symbols, width) for _, symbols in finished]
        )
        np.testing.assert_allclose(got.scores[row], [score for score, _ in finished], rtol=1e-5)


def test_greedy_search_matches_reference():
    tables = _language(3, 5, 4)
    greedy = _greedy(_next_logits(tables, 3, 5), 3, 4)
    for row in range(3):
        symbols = ()
        while len(symbols) < 4 and EOS not in symbols:
            symbols += (int(np.argmax(tables[row, symbols])),)
        np.testing.assert_array_equal(greedy.ids[row, 0], _padded(symbols, greedy.ids.shape[-1]))
        expected = _log_prob(tables, row, symbols)
        np.testing.assert_allclose(greedy.scores[row, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_beam_search_with_one_beam_is_no_worse_than_greedy(seed):
    """The beam search keeps the greedy hypothesis and also hypotheses that finish earlier."""
    tables = _language(3, 5, 4, seed)
    next_logits = _next_logits(tables, 3, 5)
    greedy = _greedy(next_logits, 3, 4)
    beam = _beam(next_logits, 3, 1, 4, 0.0)
    for row in range(3):
        if EOS in greedy.ids[row, 0].numpy():
            assert beam.scores[row, 0] >= greedy.scores[row, 0] - 1e-5
        elif EOS not in beam.ids[row, 0].numpy():
            np.testing.assert_array_equal(beam.ids[row], greedy.ids[row])
            np.testing.assert_allclose(beam.scores[row], greedy.scores[row], rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("beam_size", [0, 1, 2, 3])
def test_search_ends_when_no_token_is_allowed(beam_size, alpha):
    """No token may occur twice, and EOS may not occur before position 5.

    The beam size 0 selects greedy search.
    """
    vocab_size, longest = 4, 6
    tables = _language(5, vocab_size, longest)

    def constrain(log_probs, query):
        late = constraints.min_length(log_probs, query, length=5)
        return constraints.no_repeated_ngrams(late, query, n=1)

    task = _task(_next_logits(tables, 5, vocab_size), 5, longest, constrain)
    if beam_size:
        got = beam_search.beam_search(task, beam_size, alpha)
    else:
        got = beam_search.greedy_search(task)
    for row, (ids, score) in enumerate(zip(got.ids[:, 0].numpy(), got.scores[:, 0], strict=True)):
        assert ids.shape == (4,) and sorted(ids[:3]) == [0, 2, 3] and ids[3] == EOS
        wanted = _log_prob(tables, row, tuple(ids)) / (_penalty(4, alpha) if beam_size else 1)
        np.testing.assert_allclose(score, wanted, rtol=1e-5)


def _choices(table, written, options):
    """Return {token: log probability} of the tokens that the documented rules allow next."""
    position, n = len(written), options["no_repeat_ngram_size"]
    forced = options["forced_prefix"]
    if position < len(forced) and forced[position]:
        # A forced token overrides the other options, and its score has no eos_penalty.
        return {forced[position]: table[forced[position]]}
    values = {s: value - options["eos_penalty"] * (s == EOS) for s, value in enumerate(table)}
    found = {}
    for symbol, value in values.items():
        longer = (*written, symbol)
        ngrams = [longer[i : i + n] for i in range(len(longer) - n + 1)] if n else []
        too_early = symbol == EOS and position < options["min_length"]
        if not too_early and not (ngrams and ngrams[-1] in ngrams[:-1]):
            found[symbol] = value
    return found or {EOS: values[EOS]}


def _every_way(tables, written, value, limit, options):
    """Yield (log probability, tokens) of each complete output that continues the prefix."""
    if len(written) == limit or written[-1:] == (EOS,):
        yield value, written
        return
    for symbol, gained in _choices(tables[0, written], written, options).items():
        yield from _every_way(tables, (*written, symbol), value + gained, limit, options)


def _random_options(random, vocab_size, limit):
    forced = random.randint(0, vocab_size, size=random.randint(1, limit + 1))
    return {
        "min_length": int(random.choice([0, 1, limit - 1, limit, limit + 1])),
        "no_repeat_ngram_size": int(random.randint(0, 4)),
        "eos_penalty": float(random.choice([0.0, 0.7, -0.7])),
        "forced_prefix": tuple(forced.tolist()) if random.uniform() < 0.3 else (),
    }


@pytest.mark.parametrize("seed", range(4))
def test_constrained_search_matches_brute_force(seed):
    """In 12 random cases, greedy search and a beam search without pruning match brute force."""
    random, stuck = np.random.RandomState(seed), 0
    for case in range(12):
        vocab_size, limit = int(random.randint(2, 4)), int(random.randint(2, 6))
        alpha = float(random.choice([0.0, 0.6]))
        tables = _language(1, vocab_size, limit, 100 * seed + case)
        options = _random_options(random, vocab_size, limit)
        prefix = options["forced_prefix"]
        asked = Options(**{**options, "forced_prefix": prefix or None})
        values = {name: tf.cast(getattr(asked, name), dtype) for name, dtype in NUMBERS.items()}
        values["forced_prefix"] = tf.constant([prefix], tf.int32)
        constrain = constraints.combined(generate.options_of_trace(asked), values)
        task = _task(_next_logits(tables, 1, vocab_size), 1, limit, constrain)
        penalty = options["eos_penalty"]
        task = task._replace(eos_bonus=max(-penalty, 0.0), eos_penalty=penalty)

        ways = list(_every_way(tables, (), 0.0, limit, options))
        ended = [
            (value / _penalty(len(symbols), alpha), symbols)
            for value, symbols in ways
            if symbols[-1] == EOS
        ]
        beams = len(ways) + 1  # one beam stays empty
        expected = sorted(ended or ways, reverse=True)
        expected += [(-beam_search.INFINITY, ())] * (beams - len(expected))
        got = beam_search.beam_search(task, beams, alpha)
        ids = [_padded(symbols, got.ids.shape[2]) for _, symbols in expected]
        np.testing.assert_array_equal(got.ids[0], ids, err_msg=f"{options}")
        np.testing.assert_allclose(
            got.scores[0], [value for value, _ in expected], rtol=1e-4, err_msg=f"{options}"
        )

        written, is_stuck = (), False
        while len(written) < limit and EOS not in written:
            choices = _choices(tables[0, written], written, options)
            is_stuck |= set(choices) == {EOS} and len(written) < options["min_length"]
            written += (max(choices, key=choices.get),)
        greedy = beam_search.greedy_search(task)
        np.testing.assert_array_equal(greedy.ids[0, 0], written, err_msg=f"{options}")
        plain = _log_prob(tables, 0, written)  # greedy scores do not include eos_penalty
        np.testing.assert_allclose(greedy.scores[0, 0], plain, rtol=1e-4)
        stuck += is_stuck
    assert 0 < stuck < 12


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_beam_without_allowed_tokens_ends_independently_of_other_beams(beam_size):
    """A beam without allowed tokens gets EOS and the penalty of EOS. Other beams may continue."""
    tables = _language(1, 4, 4)
    best = int(np.argmax(np.where(np.arange(4) == EOS, -np.inf, tables[0, ()])))

    def constrain(log_probs, query):
        penalized = constraints.eos_penalty(log_probs, query, 0.5)
        late = constraints.min_length(penalized, query, 4)
        is_stuck = (query.position == 1) & (query.ids[:, :, 0] == best)
        return tf.where(is_stuck[:, :, tf.newaxis], -np.inf, late)

    task = _task(_next_logits(tables, 1, 4), 1, 4, constrain)._replace(eos_penalty=0.5)
    greedy = beam_search.greedy_search(task)
    got = beam_search.beam_search(task, beam_size, 0.0)
    np.testing.assert_array_equal(greedy.ids[0, 0], [best, EOS])
    np.testing.assert_array_equal(got.ids[0, 0, :2], [best, EOS])
    np.testing.assert_allclose(got.scores[0, 0], greedy.scores[0, 0] - 0.5, rtol=1e-5)


def test_beam_search_keeps_outputs_with_a_large_eos_penalty():
    """The score -1e9 of an output differs from the score of an empty beam."""
    constrain = functools.partial(constraints.eos_penalty, penalty=1e9)
    task = _task(_constant([0.2, 0.5, 0.3]), 1, 2, constrain)
    got = beam_search.beam_search(task._replace(eos_penalty=1e9), 4, 0.0)
    np.testing.assert_array_equal(got.ids[0], [[EOS, 0], [2, EOS], [0, EOS], [0, 0]])
    np.testing.assert_allclose(got.scores[0], [-1e9, -1e9, -1e9, -beam_search.INFINITY], rtol=1e-5)


def test_beam_search_with_fewer_hypotheses_than_beams():
    """If only forbidden tokens remain, the search leaves a beam empty."""

    def constrain(log_probs, query):
        return constraints.forced_prefix(log_probs, query, tf.constant([[2]]), log_probs)

    task = _task(_constant([0.2, 0.2, 0.3, 0.3]), 1, 1, constrain)
    got = beam_search.beam_search(task, 2, 0.6)
    np.testing.assert_array_equal(got.ids, [[[2], [0]]])
    # The second beam has no output, so its score is -INFINITY.
    np.testing.assert_allclose(got.scores, [[np.log(0.3), -beam_search.INFINITY]], rtol=1e-5)


def _constant(probabilities):
    """Return a `next_logits` function with one distribution for all examples and positions."""
    log_probs = np.log(np.float32(probabilities))
    return lambda ids, position: tf.tile(log_probs[None], [tf.shape(ids)[0], 1])


def test_greedy_search_stops_when_all_examples_have_ended():
    # Example i outputs the token 2 i times and then EOS. A search that does not stop would then add
    # the token 3.
    def next_logits(ids, position):
        row = tf.range(3)
        symbol = tf.where(position < row, 2, tf.where(position == row, EOS, 3))
        return tf.one_hot(symbol, 4) * 5.0

    for call in (_greedy, tf.function(_greedy, autograph=False)):
        got = call(next_logits, 3, 10)
        np.testing.assert_array_equal(got.ids[:, 0], [[1, 0, 0], [2, 1, 0], [2, 2, 1]])
        step = 5.0 - np.log(np.exp(5.0) + 3)
        np.testing.assert_allclose(got.scores[:, 0], [step, 2 * step, 3 * step], rtol=1e-5)


def test_beam_search_stops_when_no_hypothesis_can_improve():
    # EOS has nearly all probability, so no unfinished hypothesis can win after two steps.
    got = _beam(_constant([0.01, 0.97, 0.01, 0.01]), 1, 2, 50, alpha=0.0)
    assert got.ids.shape == (1, 2, 2)
    np.testing.assert_array_equal(got.ids[0, 0], [1, 0])


def _at_position(*distributions):
    """Return a `next_logits` function with one distribution per position, for all examples."""
    log_probs = np.log(np.float32(distributions))
    return lambda ids, position: tf.tile(
        tf.gather(log_probs, position)[None], [tf.shape(ids)[0], 1]
    )


# In both distributions, EOS is not among the four most likely tokens.
_ENDLESS = ([0.2, 1e-30, 0.4, 0.3, 0.06, 0.04], [0.1, 1e-30, 0.6, 0.25, 0.03, 0.02])


def test_beam_search_returns_log_probs_of_unfinished_hypotheses():
    got = _beam(_at_position(*_ENDLESS), 1, 2, 2, alpha=1.0)
    np.testing.assert_array_equal(got.ids, [[[2, 2], [3, 2]]])
    np.testing.assert_allclose(got.scores, [np.log([0.4 * 0.6, 0.3 * 0.6])], rtol=1e-5)


def test_beam_search_with_finished_and_unfinished_examples():
    endless = _at_position(*_ENDLESS)
    ending = _at_position([0.1, 0.4, 0.3, 0.1, 0.06, 0.04], [0.1, 0.5, 0.2, 0.1, 0.06, 0.04])

    def next_logits(ids, position):
        return tf.concat([endless(ids[:2], position), ending(ids[2:], position)], axis=0)

    got = _beam(next_logits, 2, 2, 2, alpha=1.0)
    np.testing.assert_array_equal(got.ids, [[[2, 2], [3, 2]], [[1, 0], [2, 1]]])
    expected = [np.log([0.24, 0.18]), [np.log(0.4), np.log(0.15) / (7 / 6)]]
    np.testing.assert_allclose(got.scores, expected, rtol=1e-5)


def test_beam_search_returns_empty_beams():
    got = _beam(_constant([1e-30, 0.7, 0.3]), 1, 2, 1, alpha=0.0)
    np.testing.assert_array_equal(got.ids, [[[1], [0]]])
    np.testing.assert_allclose(got.scores[0], [np.log(0.7), -beam_search.INFINITY], rtol=1e-5)


def test_beam_search_examples_are_independent():
    tables = _language(3, 5, 4)
    together = _search(tables, 3, 5, 2, 4, 0.6)
    for row in range(3):
        own = {(0, beginning): value for (r, beginning), value in tables.items() if r == row}
        alone = _search(own, 1, 5, 2, 4, 0.6)
        length = alone.ids.shape[-1]
        np.testing.assert_array_equal(alone.ids[0], together.ids[row, :, :length])
        assert not np.any(together.ids[row, :, length:])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-6)


def test_length_penalty_prefers_longer_outputs():
    # The output EOS has the probability 0.5. The output of the token 2 and EOS has the probability
    # 0.4, which is 0.5 · 0.8.
    def next_logits(ids, position):
        first, second = [1e-30, 0.5, 0.5 - 1e-6, 1e-6], [1e-30, 0.8, 0.2 - 1e-6, 1e-6]
        probabilities = tf.where(position == 0, tf.constant(first), tf.constant(second))
        return tf.tile(tf.math.log(probabilities)[None], [tf.shape(ids)[0], 1])

    best = [_beam(next_logits, 1, 2, 2, alpha).ids[0, 0].numpy().tolist() for alpha in (0.0, 3.0)]
    assert best == [[1, 0], [2, 1]]


def test_search_with_maximum_length_zero():
    for graph in (False, True):
        call = tf.function if graph else lambda function: function
        greedy = call(_greedy)(_constant([0.2, 0.5, 0.3]), 2, 0)
        assert greedy.ids.shape == (2, 1, 0)
        np.testing.assert_array_equal(greedy.scores, np.zeros((2, 1)))
        beams = call(_beam)(_constant([0.2, 0.5, 0.3]), 2, 2, 0, 0.6)
        assert beams.ids.shape == (2, 2, 0)
        assert np.all(beams.scores[:, 0] == 0)


@pytest.mark.parametrize("shape", [(3, 50), (2, 3, 5000), (1, 8193), (2, 8000)])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_top_k_matches_tensorflow(shape, k):
    random = np.random.RandomState(k)
    for x in (
        random.normal(size=shape),
        random.randint(0, 6, size=shape),  # many equal values
        np.where(random.uniform(size=shape) < 2 / shape[-1], 1.0, -np.inf),  # few allowed tokens
    ):
        x = tf.constant(x, tf.float32)
        expected = tf.math.top_k(x, k)
        for count in (k, tf.constant(k)):
            values, indices = beam_search.top_k(x, count)
            np.testing.assert_array_equal(values, expected.values)
            np.testing.assert_array_equal(indices, expected.indices)


def test_top_k_with_known_sizes_has_no_branch_in_its_graph():
    spec = [tf.TensorSpec([None, 4, 7000])]
    graph = tf.function(lambda x: beam_search.top_k(x, 4), input_signature=spec)
    operations = graph.get_concrete_function().graph.get_operations()
    assert not [op.type for op in operations if op.type in ("If", "StatelessIf")]


def test_top_k_traces_with_unknown_sizes():
    function = tf.function(
        lambda x: beam_search.top_k(x, 4), input_signature=[tf.TensorSpec([None, None, None])]
    )
    x = tf.random.stateless_normal([2, 3, 7000], [1, 2])
    np.testing.assert_array_equal(function(x)[1], tf.math.top_k(x, 4).indices)
