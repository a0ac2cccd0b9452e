"""As TPUs require, updates have static shapes and only operations that XLA can compile."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models, optimizers, problems
from ut_keras.training import distribution, train_step

_PROBLEM = "algorithmic_reverse_binary40_test"
_HPARAMS = (
    "hidden_size=8,filter_size=16,num_heads=2,num_hidden_layers=1,batch_size=64,"
    "min_length_bucket=8,length_bucket_step=2.0,attention_dropout=0.0,relu_dropout=0.0,"
    "layer_prepostprocess_dropout=0.0"
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("data"))
    problems.get(_PROBLEM).generate_data(path, path)
    return path


def _batches(hp, data_dir):
    """Return two batches with different shapes."""
    found = {}
    dataset = problems.get(_PROBLEM).dataset("train", data_dir, hp, seed=1, static_shapes=True)
    for batch in dataset:
        found.setdefault(tuple(batch[1].shape), batch)
        if len(found) == 2:
            return list(found.values())
    raise AssertionError(found.keys())


def _train(model_name, hp, batches, jit_compile):
    """Train on the batches, and return the update, the losses and the trained variables.

    With XLA, TensorFlow traces the update once per shape. Without XLA, TensorFlow traces the update
    once for all shapes, which is faster.
    """
    keras.utils.set_random_seed(0)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = models.get(model_name, hp, vocab_sizes={"inputs": 4, "targets": 4})
        optimizer = optimizers.get(hp, 1000)
        optimizer.build(model.trainable_variables)
    spec = tf.TensorSpec((None, None), tf.int32)
    element_spec = None if jit_compile else ({"inputs": spec, "targets": spec}, spec)
    step = train_step.make_train_step(model, optimizer, strategy, element_spec, jit_compile)
    losses = [float(step(batch).loss) for batch in batches]
    return step, losses, [variable.numpy() for variable in model.trainable_variables]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model_name, hparams_set, num_shapes",
    [
        ("transformer", "transformer_tiny", 2),
        # XLA takes long to compile this model, so the test trains it with only one shape. The other
        # model shows that TensorFlow traces the update once per shape.
        ("universal_transformer", "adaptive_universal_transformer_tiny", 1),
    ],
)
def test_update_with_xla_equals_update_without(model_name, hparams_set, num_shapes, data_dir):
    hp = hparams.get(hparams_set, _HPARAMS)
    shapes = _batches(hp, data_dir)[:num_shapes]
    batches = [shapes[0], shapes[-1]]  # two updates with one or two shapes
    step, compiled_losses, compiled = _train(model_name, hp, batches, jit_compile=True)
    assert step.experimental_get_tracing_count() == num_shapes
    _, losses, weights = _train(model_name, hp, batches, jit_compile=False)
    np.testing.assert_allclose(compiled_losses, losses, rtol=1e-5)
    for a, b in zip(compiled, weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)

    graph = step.get_concrete_function(batches[0]).graph
    assert all(spec.shape.is_fully_defined() for spec in graph.inputs if spec.dtype == tf.int32)
    assert not list(_strings(graph))


def _strings(graph):
    """Yield the names of the string operations in a graph, including its loops and branches."""
    definition = graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes += function.node_def
    for node in nodes:
        types = [attribute.type for attribute in node.attr.values()]
        types += [t for attribute in node.attr.values() for t in attribute.list.type]
        if tf.string.as_datatype_enum in types:
            yield node.name
