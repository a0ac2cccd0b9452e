"""With one head, a broadcast of one matrix over a batch would crash the process."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples

_V2 = "self_attention_type=dot_product_relative_v2,max_relative_position=3"
_OVERRIDES = {
    "dot_product": "",
    "relative": "self_attention_type=dot_product_relative,max_relative_position=2",
    "relative_v2": _V2,
    "relative_v2_values": f"{_V2},add_relative_to_values=True",
    "relative_v2_shared": f"{_V2},add_relative_to_values=True,heads_share_relative_embedding=True",
    "local": "self_attention_type=local_mask_right,block_length=1",
    "local_unmasked": "self_attention_type=local_unmasked,block_length=2",
    "parameter": "ffn_layer=parameter_attention",
}


def _run():
    """Check that a batch of 6 matches single examples and that every weight has a gradient."""
    for name, overrides in _OVERRIDES.items():
        for kind in ("transformer", "language_model"):
            model = examples.make(kind, f"num_heads=1,num_hidden_layers=1,{overrides}")
            batch = {key: np.tile(ids, (2, 1)) for key, ids in examples.features(kind).items()}
            with tf.GradientTape() as tape:
                logits = model(batch, training=False)
                loss = tf.reduce_sum(logits**2)
            gradients = tape.gradient(loss, model.trainable_variables)
            assert all(np.isfinite(tf.convert_to_tensor(part)).all() for part in gradients), name
            for row in range(3):
                alone = model({key: ids[row : row + 1] for key, ids in batch.items()})
                np.testing.assert_allclose(logits[row], alone[0], atol=1e-4, err_msg=name)
                np.testing.assert_allclose(logits[row + 3], alone[0], atol=1e-4, err_msg=name)
        print(name)


@pytest.mark.slow
def test_model_with_one_head_trains():
    """The models run in a separate process, because the process may crash."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.one_head_test"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == list(_OVERRIDES)


if __name__ == "__main__":
    _run()
