"""Train the same batches on one and two logical CPUs, and print the results as JSON.

train_step_test.py runs this program in a new process, because a program must create logical devices
before TensorFlow does anything else.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from tests.training import toy
from ut_keras import hparams, metrics, models, optimizers
from ut_keras.optimizers import gradient_descent
from ut_keras.training import distribution, evaluation, train_step

HPARAMS = (
    "hidden_size=16,filter_size=32,num_heads=2,act_max_steps=3,attention_dropout=0.0,"
    "relu_dropout=0.0,layer_prepostprocess_dropout=0.0"
)


def _toy_model():
    return toy.ToyModel()


def _adaptive_model():
    return _universal_model("adaptive_universal_transformer_tiny", HPARAMS)


def _universal_model(hparams_set, settings, name="universal_transformer"):
    # `override` does not log that some models ignore some of the settings.
    hp = hparams.get(hparams_set).override(settings)
    sizes = {"inputs": toy.VOCAB_SIZE, "targets": toy.VOCAB_SIZE}
    return models.get(name, hp, vocab_sizes=sizes)


def encoder(hparams_set, settings):
    """Return a model without a decoder, which TensorFlow traces in half the time."""
    return _universal_model(hparams_set, settings, "universal_transformer_encoder")


def _recomputed_model():
    sampling = "num_rec_steps_sampling='by_length(factor=0.4)'"
    settings = f"{HPARAMS},recompute_grad=True,{sampling},recurrence_fixed_point_loss_weight=0.3"
    return encoder("adaptive_universal_transformer_tiny", settings)


def _truncated_model():
    settings = (
        "num_rec_steps=3,recurrence_backprop_steps=2,recurrence_input_injection=concat,"
        "recurrence_residual_scale=0.5,num_rec_steps_sampling='lognormal_poisson(mean=2)'"
    )
    return encoder("universal_transformer_tiny", f"{HPARAMS},{settings}")


def _segmented_model():
    settings = (
        "recurrence_type=act,act_type=q_halt,act_epsilon=0.5,act_halting_bias_init=0,"
        "recurrence_segments=2,recurrence_input_injection=add"
    )
    return encoder("universal_transformer_tiny", f"{HPARAMS},{settings}")


def _batches():
    """Yield batches in which the last two examples have fewer tokens than the first two.

    In the fourth batch, the last two examples have no tokens.
    """
    random = np.random.RandomState(0)
    for long, short in ((6, 1), (5, 2), (7, 1), (4, 0)):
        ids = np.zeros((4, 8), "int32")
        ids[:2, :long] = random.randint(2, toy.VOCAB_SIZE, (2, long))
        ids[2:, :short] = random.randint(2, toy.VOCAB_SIZE, (2, short))
        yield {"inputs": ids, "targets": ids}, ids
    # This batch has fewer examples than there are replicas.
    yield {"inputs": ids[:1], "targets": ids[:1]}, ids[:1]


def dataset():
    spec = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        _batches, output_signature=({"inputs": spec, "targets": spec}, spec)
    )


def _adam():
    return optimizers.Adam(0.01, clip_grad_norm=0.5, l2_rate=1e-3, epsilon=1e-3)


def _adafactor():
    return optimizers.Adafactor(0.05, beta_1=0.5, grad_noise_scale=1e-3)


def _multistep_adam():
    return optimizers.MultistepAdam(0.01, accumulate_steps=2, epsilon=1e-3, zero_grads=True)


def _rms_prop():
    return gradient_descent.RMSProp(0.01)


# The BLEU score of a batch is not the mean of the scores of its parts (metrics/approximate.py).
_METRICS = [name for name in metrics.names() if name != "approx_bleu_score"]
# A metric reads only logits and targets, so its value does not depend on the kind of model or
# optimizer. All metrics are therefore tested only with the two models of `_ALL_METRICS`.
_FEW_METRICS = ["accuracy_per_sequence", "neg_log_perplexity"]
_ALL_METRICS = ("toy", "adaptive")


def train(make_model, make_optimizer, strategy, metric_names=_FEW_METRICS):
    """Train a model on all batches with a strategy, and return the results."""
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model()
        optimizer = make_optimizer()
        optimizer.build(model.trainable_variables)
    batches = distribution.distribute(strategy, dataset())
    step = train_step.make_train_step(model, optimizer, strategy, batches.element_spec)
    results = [step(batch) for batch in batches]
    evaluated = {name: metrics.get(name) for name in metric_names}
    evaluate = evaluation.Evaluator(model, strategy, evaluated)
    return {
        "replicas": strategy.num_replicas_in_sync,
        "losses": [float(result.loss) for result in results],
        "tokens": [float(result.tokens) for result in results],
        "sequences": [float(result.sequences) for result in results],
        "ponder": [float(result.ponder_sum) for result in results],
        "evaluation": evaluate(dataset()),
        "weights": [v.numpy().ravel().tolist() for v in model.trainable_variables],
        "replica_difference": _replica_difference(
            [*model.trainable_variables, *optimizer.variables]
        ),
        "traces": step.experimental_get_tracing_count(),
    }


def _replica_difference(variables):
    differences = [0.0]
    for variable in variables:
        values = getattr(variable.value, "values", [variable.value])
        differences += [float(np.abs(values[0].numpy() - value.numpy()).max()) for value in values]
    return max(differences)


RUNS = (
    ("toy", _toy_model, _adam),
    ("adaptive", _adaptive_model, _adam),
    ("recomputed", _recomputed_model, _adam),
    ("truncated", _truncated_model, _adam),
    ("segmented", _segmented_model, _adam),
    ("adafactor", _toy_model, _adafactor),
    ("multistep_adam", _toy_model, _multistep_adam),
    ("rms_prop", _toy_model, _rms_prop),
)


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = [
        distribution.get_strategy(devices=["CPU:0"]),
        distribution.get_strategy(devices=["CPU:0", "CPU:1"]),
    ]
    runs = {
        name: [
            train(*made, strategy, _METRICS if name in _ALL_METRICS else _FEW_METRICS)
            for strategy in strategies
        ]
        for name, *made in RUNS
    }
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main()
