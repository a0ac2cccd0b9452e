"""The formulas of `models.flops` agree with TensorFlow's count of operations in a graph."""

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from ut_keras import hparams, models
from ut_keras.models import flops

_EXAMPLES, _SOURCE, _TARGET, _VOCAB = 3, 5, 7, 11
_PRODUCTS = ("MatMul", "BatchMatMulV2")
_SIZES = "hidden_size=8,filter_size=24,num_heads=2"


def _model(name, hparams_set, changes="", vocab_sizes=None):
    vocab_sizes = vocab_sizes or {"inputs": 13, "targets": _VOCAB}
    settings = f"{_SIZES},shared_embedding_and_softmax_weights=False,{changes}".rstrip(",")
    return models.get(name, hparams.get(hparams_set, settings), vocab_sizes=vocab_sizes)


def _operations(model):
    """Return (operations of a forward pass by TensorFlow, operations of an update by shapes).

    TensorFlow counts a product wrongly if its first factor is transposed by `adj_x`, as in the
    gradient of attention. So the operations of an update are counted by the shapes of the factors.
    """
    ids = {
        name: tf.TensorSpec([_EXAMPLES, length], tf.int32)
        for name, length in (("inputs", _SOURCE), ("targets", _TARGET))
        if name in model.specs
    }

    @tf.function(autograph=False)
    def forward(features):
        return model.forward(features).logits

    @tf.function(autograph=False)
    def gradients(features):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model.forward(features).logits)
        return tape.gradient(loss, model.trainable_variables)

    graphs = [function.get_concrete_function(ids).graph for function in (forward, gradients)]
    products = [[op for op in g.get_operations() if op.type in _PRODUCTS] for g in graphs]
    by_tensorflow = sum(
        ops.get_stats_for_node_def(graphs[0], op.node_def, "flops").value for op in products[0]
    )
    return by_tensorflow, sum(map(_by_shapes, products[1]))


def _by_shapes(product):
    first, _ = (tensor.shape for tensor in product.inputs)
    name = "transpose_a" if product.type == "MatMul" else "adj_x"
    inner = first[-2] if product.get_attr(name) else first[-1]
    return 2 * inner * product.outputs[0].shape.num_elements()


@pytest.mark.parametrize("vocab_sizes", [None, {"targets": _VOCAB}])
def test_count_of_transformer_equals_that_of_tensorflow(vocab_sizes):
    model = _model(
        "transformer",
        "transformer_tiny",
        "num_encoder_layers=1,num_decoder_layers=2,attention_key_channels=12",
        vocab_sizes,
    )
    source = _SOURCE if "inputs" in model.specs else 0
    count = flops.counter(model)(_EXAMPLES, source, _TARGET)
    forward, update = _operations(model)
    assert count == flops.Flops(3 * forward) == flops.Flops(update)


def test_count_of_universal_transformer_follows_from_that_of_transformer():
    """The Universal Transformer projects the encoder's output once instead of in every layer."""
    sizes = (_EXAMPLES, _SOURCE, _TARGET)
    transformer = flops.counter(_model("transformer", "transformer_tiny", "num_hidden_layers=3"))
    one_projection = 6 * _EXAMPLES * _SOURCE * 8 * (8 + 8)
    expected = transformer(*sizes).total() - 2 * one_projection
    name = "universal_transformer"
    basic = flops.counter(_model(name, f"{name}_tiny", "num_rec_steps=3"))
    assert basic(*sizes) == flops.Flops(expected)
    adaptive = flops.counter(_model(name, f"adaptive_{name}_tiny"))(*sizes)
    assert adaptive.per_step > 0 and adaptive.total(3.0) == expected
    assert adaptive + adaptive == flops.counter(_model(name, f"adaptive_{name}_tiny"))(
        2 * _EXAMPLES, _SOURCE, _TARGET
    )


@pytest.mark.parametrize(
    "changes",
    ["recurrence_type=highway", "transformer_ffn_type=sepconv", "copy_gate=True"],
)
def test_operations_of_other_parts_are_unknown(changes):
    name = "universal_transformer"
    assert flops.counter(_model(name, f"{name}_tiny", changes)) is None


def test_operations_of_other_models_are_unknown():
    class Transformer:
        """A user's model, whose forward pass may have other products."""

    known = _model("transformer", "transformer_tiny")
    assert flops.counter(known) is not None
    own = Transformer()
    own.hparams, own.specs = known.hparams, known.specs
    assert flops.counter(own) is None
    assert flops.counter(object()) is None
