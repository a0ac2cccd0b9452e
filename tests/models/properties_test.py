"""Properties of random combinations of the parts of a Universal Transformer.

Hypothesis samples the hparams from the registries of parts and from the choices of the fields of
`UniversalTransformerHParams`. So the samples include parts and choices that are added later. The
test then checks these properties of each model:

- The gradient agrees with finite differences.
- The outputs of an example do not depend on its batch or on padding.
- A decoder position does not depend on later positions.
- Decoding with a cache and without it gives the same outputs.
- A saved and loaded model has the same outputs.

The samples are the same in every run, so a failure can be repeated. A failure also prints a
`@reproduce_failure` line, and the hparams in a form that `hparams.get` accepts. The following
command searches with new samples until the given number of seconds has passed:

    UT_KERAS_PROPERTY_SECONDS=600 pytest -m slow tests/models/properties_test.py
"""

import inspect
import os
import tempfile
import time
import types
import typing

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from tests import seeds
from ut_keras import hparams, models, parts
from ut_keras.data.features import FeatureSpec
from ut_keras.hparam_schema import HParamError, UniversalTransformerHParams
from ut_keras.layers.depth import step_recording

V, C, LENGTH = 7, 3, 5
SECONDS = float(os.environ.get("UT_KERAS_PROPERTY_SECONDS", 0))
TASKS = ("both", "language_model", "tags", "classes")
SIZES = {
    **{"hidden_size": 8, "filter_size": 8, "num_heads": 2, "batch_size": 64, "max_length": 16},
    **{"num_rec_steps": 3, "act_max_steps": 3, "num_mixedin_layers": 1, "block_length": 2},
    **{"max_relative_position": 2, "act_halting_bias_init": -0.5, "pos_randomized_range": 16},
    **{"attention_dropout": 0.0, "relu_dropout": 0.0, "layer_prepostprocess_dropout": 0.0},
}
# Values of fields whose annotations do not list the possible values.
MORE_VALUES = {
    "act_epsilon": (0.01, 0.3),
    "attention_block_size": (None, 2),
    "attention_key_channels": (0, 4),
    "class_label_pooling": ("masked_mean", "mean", "last"),
    "gates_inputs": ("i", "sti"),
    "hard_attention_k": (0, 2),
    "multiply_embedding_mode": ("sqrt_depth", "none"),
    "norm_type": ("layer", "rms"),
    "num_inrecurrence_layers": (1, 2),
    "num_rec_steps_sampling": (None, "by_length", "uniform", "lognormal_poisson(mean=2)"),
    "recompute_grad": (False, True),
    "recurrence_fixed_point_loss_weight": (0.0, 0.5),
    "recurrence_residual_scale": ("1", "0.5", "1/sqrt(N)"),
    "recurrence_segments": (1, 2),
    "recurrence_supervised_every": (0, 2),
    "relative_mask_future": (False, True),
    "shared_embedding_and_softmax_weights": (True, False),
    "unidirectional_encoder": (False, True),
    "use_pad_remover": (True, False),
}
# With these values, the model uses random numbers. A property that compares two forward passes does
# not hold for such a model.
RANDOM = {"act_type": ("random",), "position_start_index": ("random",)}
# Only the check of the gradient excludes these values. With most of them, the model uses random
# numbers in training. The loss of the fixed point stops the gradient of the norm of the state.
WITHOUT_GRADIENT_CHECK = {
    "recurrence_fixed_point_loss_weight": (0.5,),
    "num_rec_steps_sampling": ("uniform", "lognormal_poisson(mean=2)"),
    "recurrence_initial_state": ("normal",),
    "pos": ("randomized", "coupled"),
}


def _names(registry, *others):
    """Return the names of the built-in parts, without parts that other tests registered."""
    parts.load_all()
    return [
        *others,
        *(
            name
            for name in registry.names()
            if registry.get(name).__module__.startswith("ut_keras.")
        ),
    ]


def _choices(annotation):
    """Return the values of a field, or () if its annotation does not list them."""
    kind = typing.get_origin(annotation)
    if annotation is bool:
        return (False, True)
    if annotation is type(None):
        return (None,)
    if kind is typing.Literal:
        return typing.get_args(annotation)
    if kind in (typing.Union, types.UnionType):
        members = [_choices(member) for member in typing.get_args(annotation)]
        return tuple(value for member in members for value in member) if all(members) else ()
    return ()


def _fields():
    """Return {field: values}, with the default value of each field first."""
    values = {
        name: _choices(annotation)
        for name, annotation in inspect.get_annotations(UniversalTransformerHParams).items()
    }
    values = {name: found for name, found in values.items() if found} | MORE_VALUES
    values |= {
        "recurrence_type": _names(parts.recurrences),
        "act_type": _names(parts.haltings),
        "self_attention_type": _names(parts.self_attentions),
        "ffn_layer": _names(parts.transitions),
        "pos": _names(parts.position_signals, None),
    }
    default = UniversalTransformerHParams()
    return {
        name: sorted(found, key=lambda value: value != getattr(default, name))
        for name, found in values.items()
    }


# Every sample chooses values for these fields. It also changes a few of the other fields.
MAIN = ("recurrence_type", "self_attention_type", "pos")
OF_ACT = ("act_type", "act_halted_state")


@strategies.composite
def _cases(draw, tasks, trains):
    """Draw (task, hparams, seed of the weights and of the batch)."""
    excluded = {**RANDOM, **(WITHOUT_GRADIENT_CHECK if trains else {})}
    found = {
        name: [value for value in values if value not in excluded.get(name, ())]
        for name, values in _fields().items()
    }
    found["recurrence_type"] += ["act"] * len(found["recurrence_type"])  # ACT has the most rules
    task = draw(strategies.sampled_from(tasks))
    changes = {name: draw(strategies.sampled_from(found[name])) for name in MAIN}
    if changes["recurrence_type"] == "act":
        changes |= {name: draw(strategies.sampled_from(found[name])) for name in OF_ACT}
    if changes["recurrence_type"] in ("basic", "act"):
        injection = found["recurrence_input_injection"]
        changes["recurrence_input_injection"] = draw(strategies.sampled_from(injection))
    if changes["recurrence_type"] in ("gru", "lstm"):  # GRU and LSTM count the steps
        changes["add_step_timing_signal"] = False
    rest = found.keys() - {*MAIN, *OF_ACT, *changes, "recurrence_input_injection"}
    others = strategies.sampled_from([name for name in sorted(rest) if len(found[name]) > 1])
    for name in draw(strategies.lists(others, max_size=4, unique=True)):
        changes[name] = draw(strategies.sampled_from(found[name][1:]))
    seed = draw(strategies.integers(0, 2**16))
    return task, changes, seed


class _Case:
    """A model with perturbed weights and a batch of three examples with padding."""

    def __init__(self, task, changes, seed):
        self.task, self.seed = task, seed
        seeds.set_seed(seed)
        random = np.random.RandomState(seed)
        targets = FeatureSpec(C, "class_label") if task == "classes" else FeatureSpec(V)
        specs = {"inputs": FeatureSpec(V), "targets": targets}
        if task == "language_model":
            del specs["inputs"]
        name = "universal_transformer"
        name += "_encoder" if task in ("tags", "classes") else ""
        try:
            hp = hparams.get("universal_transformer_tiny", {**SIZES, **changes})
            self.model = models.from_specs(name, hp, specs)
        except HParamError:  # the combination is not supported
            hypothesis.reject()
        for variable in self.model.trainable_variables:
            scale = 1.0 if "pondering" in variable.path else 0.2
            variable.assign_add(scale * random.normal(size=variable.shape))
        self.features = {}
        for feature, spec in specs.items():
            if spec.modality == "class_label":
                self.features[feature] = random.randint(0, C, [3, 1]).astype("int32")
                continue
            lengths = random.permutation([LENGTH, random.randint(1, LENGTH), 1])
            ids = random.randint(2, V, [3, LENGTH])
            real = np.arange(LENGTH) < lengths[:, np.newaxis]
            self.features[feature] = np.where(real, ids, 0).astype("int32")
        if task == "tags":
            self.features["targets"] = self.features["inputs"]

    def logits(self, features):
        return self.model(features, training=False).numpy()


def _assert_close(got, want, message=""):
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * scale, err_msg=message)


def check_gradient(case):
    """Compare derivatives with central differences, for all variables and for one variable.

    The models compute in float32, so the differences are taken over a large step. Within this step,
    the loss may have a kink, for example from ReLU. So the check uses only points at which two
    steps of different size agree. The check fails if the gradient differs at three such points.
    """
    random = np.random.RandomState(case.seed)
    found = []
    for _ in range(4):
        for variable in case.model.trainable_variables:
            variable.assign_add(0.05 * random.normal(size=variable.shape))
        differences = [_slopes(case, random, moves_one) for moves_one in (False, True)]
        tolerances = [5e-4 + 2e-3 * abs(small) for _, _, small in differences]
        smooth = [
            abs(large - small) < tolerance / 2
            for (_, large, small), tolerance in zip(differences, tolerances, strict=True)
        ]
        if not all(smooth):
            continue
        close = [
            abs(gradient - small) < tolerance
            for (gradient, _, small), tolerance in zip(differences, tolerances, strict=True)
        ]
        if all(close):
            return
        found.append(differences)
    assert len(found) < 3, found
    hypothesis.event("not smooth")


def _slopes(case, random, moves_one):
    """Return three slopes of the loss along a random direction.

    The gradient gives the first slope. Differences over two steps of different size give the
    others.
    """
    model, variables = case.model, case.model.trainable_variables
    start = [variable.numpy() for variable in variables]

    def loss():
        return tf.add_n(list(model.inspect(case.features, training=True).losses.values()))

    with tf.GradientTape() as tape:
        value = loss()
    # A variable without influence on the loss has the gradient None.
    gradients = [
        np.zeros(x.shape) if gradient is None else np.float64(tf.convert_to_tensor(gradient))
        for x, gradient in zip(start, tape.gradient(value, variables), strict=True)
    ]
    moved = [random.randint(len(start))] if moves_one else range(len(start))
    # All variables move equally far, so that the check also finds a wrong gradient of a small
    # variable.
    directions = [random.normal(size=x.shape) for x in start]
    directions = [x / np.linalg.norm(x) * (i in moved) for i, x in enumerate(directions)]
    slopes = []
    for size in (4e-3, 2e-3):
        values = []
        for sign in (1, -1):
            for variable, x, y in zip(variables, start, directions, strict=True):
                variable.assign(x + sign * size * y)
            values.append(float(loss()))
        slopes.append((values[0] - values[1]) / (2 * size))
    for variable, x in zip(variables, start, strict=True):
        variable.assign(x)
    return sum(np.sum(x * y) for x, y in zip(gradients, directions, strict=True)), *slopes


def check_batch(case):
    """Compare the examples of a batch with the same examples alone, with and without padding."""
    model, together = case.model, case.logits(case.features)
    may_cut = {
        "inputs": not (model.why_source_padding_matters or model.why_encoder_padding_matters),
        "targets": not (model.why_target_padding_matters or model.class_labels),
    }
    if case.task == "tags":
        may_cut["targets"] = may_cut["inputs"]
    for row in range(len(together)):
        alone = {name: ids[row : row + 1] for name, ids in case.features.items()}
        _assert_close(case.logits(alone)[0], together[row], f"example {row}")
        short = {
            name: ids[:, : np.count_nonzero(ids)] if may_cut[name] else ids
            for name, ids in alone.items()
        }
        got = case.logits(short)[0]
        want = together[row] if model.class_labels else together[row][: len(got)]
        _assert_close(got, want, f"example {row} without padding")


def check_causality(case):
    """Change the last targets, and compare the logits at positions that do not read the change."""
    if not case.model.decoder_is_causal:
        return
    changed = case.features["targets"].copy()
    changed[:, 2:] = np.where(changed[:, 2:], (changed[:, 2:] - 1) % (V - 2) + 2, 0)
    got = case.logits({**case.features, "targets": changed})
    _assert_close(got[:, :3], case.logits(case.features)[:, :3])


def check_steps(case):
    """Check that recorded states are correct, and that equal states change nothing.

    The output after the last recorded step must be the output of the stack. A patch with the
    recorded states must not change the logits.
    """
    output = case.model.forward(case.features, training=False, record_steps=True)
    _assert_close(output.logits, case.logits(case.features))
    for stack in ("encoder", "decoder"):
        found = getattr(output, stack)
        if found is None:
            continue
        np.testing.assert_array_equal(found.recorded.outputs[-1], found.output)
        everywhere = tf.ones(found.output.shape[:2], tf.bool)
        patches = {
            number: step_recording.StatePatch(everywhere, found.recorded.states[number])
            for number in range(1, len(found.recorded.states))
        }
        again = case.model.forward(case.features, training=False, patches={stack: patches})
        _assert_close(again.logits, output.logits)


def check_cache(case):
    """Compare decoding with a cache and decoding without a cache."""
    if case.model.why_not_cached:
        return
    features = dict(case.features)
    if "inputs" in features:
        del features["targets"]
    else:
        features["targets"] = np.maximum(features["targets"][:, :2], 2)  # a prompt has no padding
    cached, full = (
        case.model.generate(features, beam_size=2, decode_length=3, cache=cache)
        for cache in (True, False)
    )
    np.testing.assert_array_equal(cached.ids, full.ids)
    _assert_close(cached.scores, full.scores)


def check_saving(case):
    """Save the model, load it and compare the outputs and the configs."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        case.model.save(path)
        loaded = keras.models.load_model(path)
    assert loaded.hparams == case.model.hparams
    np.testing.assert_array_equal(loaded(case.features, training=False), case.logits(case.features))


CHECKS = {
    "gradient": (check_gradient, TASKS),
    "batch": (check_batch, TASKS),
    "causality": (check_causality, ("both", "language_model")),
    "steps": (check_steps, TASKS),
    "cache": (check_cache, ("both", "language_model")),
    "saving": (check_saving, TASKS),
}


def _search(names, examples, seconds=0.0):
    """Check properties of random models.

    Args:
        names: list of names in `CHECKS`.
        examples: int, the number of samples.
        seconds: float. If it is not 0, the search checks new samples until this time has passed.
    """
    tasks = [task for task in TASKS if all(task in CHECKS[name][1] for name in names)]
    end, failures = time.monotonic() + seconds, []

    @hypothesis.settings(
        max_examples=10**6 if seconds else examples,
        derandomize=not seconds,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(_cases(tasks, trains="gradient" in names))
    def check(drawn):
        if seconds and not failures and time.monotonic() > end:
            return  # after a failure, hypothesis repeats and shortens the sample
        task, changes, seed = drawn
        case = _Case(task, changes, seed)
        for name in names:
            try:
                CHECKS[name][0](case)
            except Exception as error:
                failures.append(drawn)
                text = ",".join(f"{key}={value!r}" for key, value in changes.items())
                raise AssertionError(f"{name} of {task}, seed {seed}: {text}") from error

    check()


@pytest.mark.parametrize(
    "names, examples",
    [(["gradient"], 4), (["batch", "steps"], 5), (["causality", "cache"], 2), (["saving"], 2)],
)
def test_random_combinations_keep_properties(names, examples):
    """The default run checks only a few samples. The slow test below checks more."""
    _search(names, examples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names, examples",
    [(["gradient"], 20), (["batch", "steps"], 30), (["causality", "cache"], 12), (["saving"], 12)],
)
def test_more_random_combinations_keep_properties(names, examples):
    _search(names, examples, SECONDS / 4)
