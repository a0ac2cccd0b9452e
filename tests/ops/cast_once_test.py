import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.decoding import generate, options
from ut_keras.models import universal_transformer
from ut_keras.ops import cast_once

TINY = "hidden_size=16,filter_size=20,num_heads=2,activation_dtype=bfloat16"
MODELS = {
    "transformer": ("transformer", "transformer_tiny", "num_hidden_layers=2"),
    "universal": ("universal_transformer", "universal_transformer_tiny", "num_rec_steps=3"),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_tiny", "act_max_steps=3"),
}

OTHERS = ("transformer", "adaptive")


def _model(name):
    keras.utils.set_random_seed(1)
    model, hparams_set, overrides = MODELS[name]
    hp = hparams.get(hparams_set, f"{TINY},{overrides}")
    return models.get(model, hp, vocab_sizes={"inputs": 9, "targets": 9})


def _casts_of_weights_in_loops(search):
    """Return the names of the operations in loops that cast the value of a variable."""
    found = []
    for function in search.get_concrete_function().graph.as_graph_def().library.function:
        if "body" in function.signature.name:
            reads = {f"{x.name}:value:0" for x in function.node_def if x.op == "ReadVariableOp"}
            casts = [x for x in function.node_def if x.op == "Cast"]
            found += [x.name for x in casts if reads & {*x.input}]
    return found


@pytest.mark.parametrize(
    "name", ["universal", *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS)]
)
@pytest.mark.parametrize("chosen", [{"beam_size": 3}, {"temperature": 1.0}])
def test_search_casts_weights_before_its_loops(name, chosen, monkeypatch):
    source = {"inputs": np.array([[2, 3, 4, 1, 0], [5, 6, 7, 8, 1]], np.int32)}
    trace_options = generate.options_of_trace(options.Options(**chosen))
    results, numbers = [], []
    for casts_once in (False, True):
        if not casts_once:
            monkeypatch.setattr(cast_once, "scope", lambda weights, dtype: keras.StatelessScope())
        model = _model(name)
        results.append(model.generate(source, decode_length=4, seed=7, **chosen))
        search = generate.traced_search(model, (2, 5), trace_options)
        numbers.append(len(_casts_of_weights_in_loops(search)))
        monkeypatch.undo()
    # Each loop still casts the embedding of the steps, which has one small vector per step.
    assert numbers[0] >= 10 and numbers[1] <= 2, numbers
    np.testing.assert_array_equal(results[0].ids, results[1].ids)
    np.testing.assert_array_equal(results[0].scores, results[1].scores)


class _Reader(keras.layers.Layer):
    """Returns its weight, and counts its calls."""

    def build(self, input_shape):
        self.weight = self.add_weight(shape=(), initializer=keras.initializers.Constant(1 / 3))
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign_add(tf.ones([], self.calls.value.dtype))
        return tf.convert_to_tensor(self.weight)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "bfloat16"])
def test_layer_reads_the_same_value_and_changes_its_variables(policy):
    layer = _Reader(dtype=policy)
    expected = layer(tf.zeros([]))

    @tf.function
    def loop():
        with cast_once.scope(layer.trainable_weights, layer.compute_dtype):
            return tf.while_loop(
                lambda i, _: i < 3, lambda i, _: (i + 1, layer(tf.zeros([]))), (0, expected)
            )

    _, read = loop()
    assert read.dtype == layer.compute_dtype
    assert read == expected
    assert layer.calls.value == 4


class _WithLateLayer(universal_transformer.UniversalTransformer):
    """A model whose layer `extra` is built in its first call."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = keras.layers.Dense(9)

    def logits(self, *args, **kwargs):
        return self.extra(super().logits(*args, **kwargs))


class _WithFunction(universal_transformer.UniversalTransformer):
    """A model that computes its logits in a `tf.function`."""

    @tf.function
    def logits(self, *args, **kwargs):
        return super().logits(*args, **kwargs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_search_initializes_layers_that_it_builds(dtype):
    other = _model("universal")
    hp = dataclasses.replace(other.hparams, activation_dtype=dtype)
    model = _WithLateLayer(hp, other.specs)
    source = {"inputs": np.array([[2, 3, 4, 1]], np.int32)}
    model.generate(source, decode_length=2)
    model.extra.bias.assign(tf.one_hot(3, 9, 100.0))
    assert (model.generate(source, decode_length=2).ids.numpy() == 3).all()


def test_function_of_a_users_model_reads_new_weights_after_a_search():
    other = _model("universal")
    model = _WithFunction(other.hparams, other.specs)
    source = {"inputs": np.array([[2, 3, 4, 1]], np.int32)}
    features = {**source, "targets": np.array([[5, 6, 1]], np.int32)}
    model.generate(source, decode_length=2)
    model(features)
    for weight in model.trainable_variables:
        weight.assign(tf.zeros_like(weight.value))
    assert not np.any(model(features))
    model.generate({"inputs": np.array([[2, 3, 1], [4, 1, 0]], np.int32)}, decode_length=2)


def test_weight_without_a_cast_is_exact():
    layer = _Reader(dtype="mixed_bfloat16")
    layer.build(())
    with cast_once.scope(layer.trainable_weights, layer.compute_dtype):
        assert float(layer.weight.value) == np.float32(1 / 3)
