"""Tests of the search that XLA compiles, and of the decision whether XLA compiles it."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.decoding import batch_plan, xla_search
from ut_keras.decoding.options import Options
from ut_keras.ops import compiled, devices

INPUTS = np.array([[3, 4, 5, 6, 1], [5, 1, 0, 0, 0], [2, 7, 1, 0, 0]], np.int32)


def _model(kind, overrides="", scale=0.5):
    """Return a model whose outputs differ from example to example."""
    model, rng = examples.make(kind, overrides), np.random.default_rng(4)
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(scale * rng.normal(size=weight.shape))
    return model


@pytest.mark.parametrize(
    ("size", "least", "expected"), [(1, 1, 1), (2, 1, 2), (3, 1, 4), (64, 1, 64), (65, 8, 128)]
)
def test_bucket_is_a_power_of_two(size, least, expected):
    assert xla_search.bucket(size, least) == expected
    assert xla_search.bucket(0, 8) == xla_search.bucket(8, 8) == 8


def test_plan_powers_gives_batches_without_added_examples():
    lengths = np.random.default_rng(0).integers(1, 61, 200).tolist()
    batches = xla_search.plan_powers(lengths, tokens=2048, max_examples=16)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    sizes = [len(batch) for batch in batches]
    assert all(size in (1, 2, 4, 8, 16) for size in sizes[:-1]) and max(sizes) == 16
    longest = [max(lengths[row] for row in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for size, length in zip(sizes, longest, strict=True):
        assert xla_search.bucket(size) * xla_search.bucket(length, 8) <= 2048
    # A batch that is too long for `tokens` has one sequence.
    assert xla_search.plan_powers([5, 1000, 4], tokens=20, max_examples=9) == [[1], [0, 2]]
    assert xla_search.plan_powers([], 20, 9) == []
    # Eight sequences of 64 positions and eight of 8: two batches have less padding than one.
    batches = xla_search.plan_powers([64] * 8 + [8] * 8, tokens=0, max_examples=0)
    assert batches == [[*range(8)], [*range(8, 16)]]
    # Three sequences of 64 positions and one of 8: one batch more costs more than the padding.
    assert xla_search.plan_powers([64] * 3 + [8], 0, 0) == [[0, 1, 2, 3]]


def test_plan_depends_on_the_decision_to_compile(gpu, monkeypatch):
    model, lengths = examples.shared("universal"), [40, 9, 9, 9, 9, 9]
    limits = (lengths, 128, 64)
    plain = batch_plan.plan(*limits)
    planned = xla_search.plan(model, Options(), *limits)
    assert planned == xla_search.plan_powers(*limits) != plain
    assert xla_search.plan(model, Options(temperature=1.0), *limits) == plain
    assert xla_search.plan(model, Options(jit_compile=False), *limits) == plain
    assert xla_search.plan(model, Options(), [], 128, 64) == []
    relative = examples.make(
        "universal", "self_attention_type=dot_product_relative_v2,max_relative_position=3"
    )
    assert xla_search.plan(relative, Options(), *limits) == batch_plan.plan(*limits, True)
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    assert xla_search.plan(model, Options(), *limits) == plain


def test_pad_gives_few_shapes_and_no_outputs_to_new_examples():
    rows = {"inputs": INPUTS, "forced_prefix": INPUTS[:, :3], "max_output_length": [9, 6, 7]}
    rows = {name: tf.constant(value) for name, value in rows.items()}
    padded = xla_search.pad(examples.shared("universal"), rows)
    np.testing.assert_array_equal(padded["max_output_length"], [9, 6, 7, 0])
    np.testing.assert_array_equal(padded["inputs"][:3, :5], INPUTS)
    assert padded["inputs"].shape == (4, 8) and padded["forced_prefix"].shape == (4, 4)
    # The last example is a copy, so it needs no steps in depth that the others do not need.
    np.testing.assert_array_equal(padded["inputs"][3], padded["inputs"][2])
    # The padding of the length is zero.
    assert (
        not padded["inputs"][:, 5:].numpy().any()
        and not padded["forced_prefix"][:, 3:].numpy().any()
    )


@pytest.mark.parametrize("per_example_length", [False, True])
def test_auto_on_a_gpu_gives_the_same_outputs(per_example_length, gpu, signatures):
    model, features = _model("universal"), {"inputs": INPUTS}
    options = {"beam_size": 2, "decode_length": 3, "per_example_length": per_example_length}
    expected = model.generate(features, **options, jit_compile=False)
    assert not signatures
    found = model.generate(features, **options)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    # A shorter batch of other lengths does not need another shape.
    model.generate({"inputs": INPUTS[:, :4]}, **options)
    ((rows, _),) = signatures
    assert rows["inputs"].shape == (4, 8)


def test_auto_does_not_compile_on_a_cpu(monkeypatch, signatures):
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    examples.make("universal").generate({"inputs": INPUTS}, decode_length=1)
    assert not signatures


@pytest.mark.parametrize(
    ("kind", "overrides", "length", "reason"),
    [
        ("language_model", "", 5, "language model"),
        ("universal", "", xla_search.MOST_LENGTH, "maximum output length, 1074"),
        (
            "universal",
            "self_attention_type=dot_product_relative_v2,max_relative_position=3",
            5,
            "relative",
        ),
    ],
)
def test_auto_logs_why_it_does_not_compile(kind, overrides, length, reason, gpu, caplog):
    model = examples.make(kind, overrides)
    with caplog.at_level(logging.INFO, "ut_keras"):
        assert not xla_search.is_used(model, Options(), length)
    assert reason in caplog.text


def test_explicit_value_wins(gpu, monkeypatch):
    model = examples.shared("universal")
    assert xla_search.is_used(model, Options(), 5)
    assert not xla_search.is_used(model, Options(jit_compile=False), 5)
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    assert not xla_search.is_used(model, Options(), 5)
    assert xla_search.is_used(model, Options(jit_compile=True), 5)


def test_auto_continues_without_xla_and_logs_one_line(gpu, monkeypatch, caplog):
    def fails(run, input_signature, jit_compile=False):
        if jit_compile:
            raise tf.errors.UnimplementedError(None, None, "no kernel for this\nand a long trace")
        return original(run, input_signature)

    original = compiled.function
    model = examples.make("universal")
    options = {"decode_length": 2, "seed": 1, "temperature": 1.0}
    expected = model.generate({"inputs": INPUTS}, **options, jit_compile=False)
    monkeypatch.setattr(compiled, "function", fails)
    caplog.clear()  # the example's hparams cause a note
    for _ in range(2):
        found = model.generate({"inputs": INPUTS}, **options)
        np.testing.assert_array_equal(found.ids, expected.ids)
    (message,) = (record.getMessage() for record in caplog.records)
    assert "no kernel for this" in message and "\n" not in message
    with pytest.raises(tf.errors.UnimplementedError, match="no kernel"):
        model.generate({"inputs": INPUTS}, **options, jit_compile=True)


def test_auto_decodes_a_batch_without_xla_if_it_does_not_fit_in_memory(gpu, caplog):
    model = examples.shared("universal")
    rows = {"inputs": INPUTS, "forced_prefix": INPUTS[:, :0], "max_output_length": [9, 6, 7]}
    rows = {name: tf.constant(value) for name, value in rows.items()}

    def fails(rows, values):
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")

    assert xla_search.run(model, fails, rows, {}, Options()) is None
    assert "[3, 5]" in caplog.text
    # Smaller batches are still compiled.
    assert xla_search.is_used(model, Options(), 5)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        xla_search.run(model, fails, rows, {}, Options(jit_compile=True))


def test_jit_compile_rejects_other_values_before_any_work():
    model = examples.shared("universal")
    for value in ("atuo", 1, None):
        with pytest.raises(ValueError, match=f"jit_compile must be .*Received: {value!r}"):
            model.generate({"inputs": INPUTS}, jit_compile=value)
    with pytest.raises(ValueError, match="jit_compile must be .*language model.*Received: True"):
        examples.shared("language_model").generate({"inputs": INPUTS}, jit_compile=True)


OPTIONS = {
    "greedy": {},
    "beam": {"beam_size": 4, "per_example_length": True},
    "sampling": {"temperature": 1.0, "seed": 3, "top_k": 4},
    "constraints": {
        "beam_size": 2,
        "no_repeat_ngram_size": 2,
        "min_length": 3,
        "eos_penalty": 0.5,
        "forced_prefix": np.array([[3, 4, 5], [2, 0, 0], [6, 2, 0]]),
    },
}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 65, 1000])
def test_bucket_in_a_graph_equals_the_bucket_of_an_int(size):
    for least in (1, 8):
        found = tf.function(xla_search.bucket, autograph=False)(tf.constant(size), least)
        assert found.numpy() == xla_search.bucket(size, least)


def test_pad_in_a_graph_gives_the_same_rows():
    rows = {"inputs": INPUTS, "forced_prefix": INPUTS[:, :3], "max_output_length": [9, 6, 7]}
    rows = {name: tf.constant(value) for name, value in rows.items()}
    model = examples.shared("universal")
    signature = {name: tf.TensorSpec([None] * x.shape.rank, x.dtype) for name, x in rows.items()}
    pad = tf.function(lambda rows: xla_search.pad(model, rows), [signature], autograph=False)
    expected, found = xla_search.pad(model, rows), pad(rows)
    for name in rows:
        np.testing.assert_array_equal(found[name], expected[name])
    # An empty batch gets one empty example.
    empty = pad({name: x[:0] for name, x in rows.items()})
    np.testing.assert_array_equal(empty["inputs"], np.zeros([1, 8]))
    np.testing.assert_array_equal(empty["max_output_length"], [0])


@pytest.mark.slow  # XLA takes long to compile the search
@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("universal", name) for name in OPTIONS), ("transformer", "beam"), ("adaptive", "beam")],
)
def test_compiled_search_gives_the_same_outputs(kind, name):
    _assert_compiled_search_is_the_same(_model(kind), name)


@pytest.mark.slow
def test_compiled_search_with_relative_xl_attention_and_an_sru_gives_the_same_outputs():
    # With larger weights, rounding errors grow from step to step.
    model = _model("universal", "self_attention_type=dot_product_relative_xl,add_sru=True", 0.2)
    _assert_compiled_search_is_the_same(model, "beam")


def _assert_compiled_search_is_the_same(model, name):
    features = {"inputs": INPUTS}
    options = {"decode_length": 3, **OPTIONS[name]}
    expected = model.generate(features, **options, jit_compile=False)
    found = model.generate(features, **options, jit_compile=True)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    assert any(
        getattr(key[0], "__name__", "") == "xla_search_function"
        for key in model.compiled_functions.of_decoding()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ("", "beam"),
        ("", "sampling"),
        ("", "constraints"),
        ("act_halted_state=copy", "beam"),
    ],
)
def test_search_that_xla_compiles_inside_a_function_gives_the_same_outputs(overrides, name):
    model = _model("adaptive", overrides)
    options = {"decode_length": 3, **OPTIONS[name]}
    prefix = options.pop("forced_prefix", None)

    def generate(inputs, **changed):
        prefixes = {} if prefix is None else {"forced_prefix": prefix}
        return model.generate({"inputs": inputs}, **options, **prefixes, **changed)

    signature = [tf.TensorSpec([None, None], tf.int32)]
    function = tf.function(lambda x: generate(x, jit_compile=True), signature, autograph=False)
    for inputs in (INPUTS, INPUTS[:, :2]):
        found, expected = function(tf.constant(inputs)), generate(inputs, jit_compile=False)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
