"""Run a model on one example and record attention, ponder times and steps.

    seen = observer.observe(model, features, encoders)      an `Observation`
    seen.maps["encoder"].weights        [N, H, S, S]
    seen.ponder["encoder"].times        [S]
    seen.steps["decoder"].logits        [N, T, V], see `step_lens`

Padding is omitted, including the empty sentences before the question of a bAbI story.

Each position of the decoder reads the token before its own and predicts its own token. In the
decoder's self-attention, the label of a query is the token that its position predicts. The label of
a key is the token that its position reads. The label of the first key is `<start>`.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import itertools
import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from ut_keras.errors import UsageError
from ut_keras.layers.basic import id_checks
from ut_keras.layers.depth import mixed_depth
from ut_keras.layers.depth import stack as stack_lib
from ut_keras.text import text_encoder
from ut_keras.text.text_encoder_base import TextEncoder
from ut_keras.visualize import step_lens

START = "<start>"


class DepthPosition(NamedTuple):
    """The recurrence step and the layer to which an attention belongs."""

    step: str  # "1", "2", …; "before" or "after" the recurrence; "1" for a model without recurrence
    layer: int  # from 1


class Map(NamedTuple):
    """Attention weights of one kind, for N depth positions and H heads."""

    kind: str  # "encoder", "decoder" (self-attention) or "memory" (decoder to encoder)
    depth_positions: tuple  # of N `DepthPosition`s
    weights: np.ndarray  # [N, H, T, S] float32
    queries: list  # T str
    keys: list  # S str

    def __repr__(self) -> str:
        shape = list(self.weights.shape)
        return f"Map({self.kind}: weights {shape} of steps, heads, queries, keys)"

    @property
    def places(self) -> tuple:
        """The deprecated name of `depth_positions`."""
        message = "Map.places is now Map.depth_positions; the next version removes the old name."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.depth_positions


class PonderTimes(NamedTuple):
    """The ponder times of the positions of a stack."""

    labels: list  # S str
    times: np.ndarray  # [S] float32, in steps

    def __repr__(self) -> str:
        of_each = zip(self.labels, self.times, strict=True)
        return " ".join(f"{label}:{time:.3g}" for label, time in of_each)


class Observation(NamedTuple):
    """Everything that was recorded for one example."""

    maps: dict  # from kind to `Map`
    ponder: dict  # from "encoder" and "decoder" to `PonderTimes`
    inputs: str  # "" for a language model
    outputs: str  # the targets (given or generated), or the predicted class of a classifier
    is_story: bool  # True if the source's positions are sentences
    # From "encoder" and "decoder" to `step_lens.Steps`. Empty without a recurrence in depth.
    steps: Mapping[str, step_lens.Steps] = types.MappingProxyType({})

    def __repr__(self) -> str:
        """Return a summary of a few lines for notebooks, without the arrays."""
        ponder = (f"steps of the {stack}: {times!r}" for stack, times in self.ponder.items())
        lines = (f"{self.inputs!r} -> {self.outputs!r}", *ponder, *map(repr, self.maps.values()))
        return "\n".join(lines)


def observe(
    model: keras.Model,
    features: Mapping[str, Any],
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    attention: bool = True,
    steps: bool | None = None,
    replace: step_lens.Replacement | None = None,
) -> Observation:
    """Run the model on one example and record its attention, ponder times and steps.

    Args:
        model: a model with `forward`, such as `ut_keras.models.get` returns.
        features: dict of int ids [B, ...]: "inputs" and, optionally, "targets". If there are no
            targets, the model generates them first. For a language model, "inputs" is then the
            prompt.
        encoders: dict from feature name to `TextEncoder`, for the labels. Optional.
        example: int, the index of the example in the batch.
        attention: bool. Whether to record attention weights. With N steps and layers, H heads and a
            source of S positions, the weights need 4 N H S^2 bytes. They need twice as much while
            they are collected. Ponder times need little memory.
        steps: bool. Whether to record the steps of the recurrences in depth. The logits of N steps
            need 4 N T V bytes for T predictions and V tokens. None: the same as `attention`.
        replace: dict. A key is the number of a step; the first step is 1. The value is a state
            [S, D], which replaces the state after this step. See `step_lens.patches`. If
            there are no targets, the model generates them without the replacement. Optional.

    Returns:
        `Observation`.

    Raises:
        ValueError: if `example` is not an index of the batch, an id is out of range, or `replace`
            does not fit the model and the example.
        UsageError: if prepend_mode is not "none", because the decoder then also reads the inputs.
    """
    _check_not_prepended(model)
    encoders = encoders or {}
    features = _one_example(model, features, example)
    if "targets" not in features:
        features = _with_targets(model, features)
    source = _source_positions(model, features, encoders)
    target, read = _target_positions(model, features, encoders)
    stacks = {"encoder": source, "decoder": target}
    stacks = {stack: positions for stack, positions in stacks.items() if positions is not None}
    kept = {stack: positions.kept for stack, positions in stacks.items()}
    patches = step_lens.patches(replace or {}, kept, model.hparams.hidden_size)
    steps = attention if steps is None else steps
    recording = {"record_steps": True, "patches": patches} if steps or patches else {}
    output = model.forward(features, training=False, record_attention=attention, **recording)
    recorded = _steps(model, output, stacks, encoders)
    step_lens.check_were_taken(patches, recorded)
    return Observation(
        maps=_maps(model, output, source, target, read),
        ponder=_ponder(output, stacks),
        inputs=_inputs(features, source, encoders),
        outputs=_outputs(model, output, features, source, encoders.get("targets")),
        is_story=source is not None and source.is_story,
        steps=recorded,
    )


def _check_not_prepended(model):
    mode = getattr(model.hparams, "prepend_mode", "none")
    if mode != "none":
        raise UsageError(
            f"prepend_mode must be none to plot a model. Received: prepend_mode={mode}."
        )


class _Positions(NamedTuple):
    """The positions of a sequence that are not padding."""

    labels: list
    kept: np.ndarray  # bool, for all positions
    is_story: bool = False


def _one_example(model, features, example):
    """Return the ids of one example, [1, ...], without the padding after them."""
    row = {}
    for name, value in features.items():
        value = np.asarray(value)
        if not 0 <= example < len(value):
            raise ValueError(f"example must be in [0, {len(value)}). Received: {example}.")
        # The prompt of a language model is the feature "inputs", which has no spec.
        spec = model.specs.get(name, model.specs["targets"])
        size = spec.vocab_size if name in ("inputs", "targets") else None
        row[name] = np.asarray(id_checks.as_ids(value[example : example + 1], name, size))
    for name in ("inputs", "targets"):
        if name not in row or row[name].ndim != 2:
            continue
        is_class = name in model.specs and model.specs[name].modality == "class_label"
        filled = np.flatnonzero(row[name][0])
        length = 1 if is_class or not len(filled) else filled[-1] + 1
        for part in row:
            if part == name or part.startswith(f"{name}_"):
                row[part] = row[part][:, :length]
    return row


def _with_targets(model, features):
    """Return the features with targets that the model generates."""
    if model.class_labels or model.decoder is None:
        return {**features, "targets": np.zeros([1, 1], "int32")}
    ids = np.asarray(model.generate({"inputs": features["inputs"]}).ids)[:, 0]
    ends = np.flatnonzero(ids[0] == text_encoder.EOS)
    written = ids[:, : ends[0] + 1 if len(ends) else None]
    if "inputs" in model.specs:
        return {**features, "targets": written}
    return {"targets": np.concatenate([features["inputs"], written], axis=1)}


def _source_positions(model, features, encoders):
    if model.encoder is None:
        return None
    ids, encoder = features["inputs"][0], encoders.get("inputs")
    if ids.ndim > 1:
        kept = (ids != 0).any(axis=1)
        return _Positions([text_label(encoder, row) for row in ids[kept]], kept, True)
    kept = ids != 0
    return _Positions(token_labels(encoder, ids[kept]), kept)


def _target_positions(model, features, encoders):
    """Return (predicted tokens, read tokens) of the positions of the decoder."""
    if model.decoder is None:
        return None, None
    ids, encoder = features["targets"][0], encoders.get("targets")
    if model.class_labels:
        one = np.ones([1], bool)
        return _Positions(["prediction"], one), _Positions([START], one)
    kept = ids != 0
    written = token_labels(encoder, ids)
    read = [START, *written[:-1]]
    return tuple(_Positions([*itertools.compress(all_, kept)], kept) for all_ in (written, read))


def _ponder(output, stacks):
    """Return an example's ponder times: dict from a stack's name to `PonderTimes`.

    Args:
        output: `ModelOutput`.
        stacks: dict from the name of a stack to its `_Positions`.
    """
    ponder = {}
    for stack, positions in stacks.items():
        found = getattr(output, stack)
        if found is None or found.ponder_times is None:
            continue
        # If all positions halt together, an example has only one ponder time.
        times = np.asarray(found.ponder_times, "float32")[0]
        times = np.broadcast_to(times, positions.kept.shape)
        ponder[stack] = PonderTimes(positions.labels, times[positions.kept])
    return ponder


def _steps(model, output, stacks, encoders):
    """Return an example's recorded steps: dict from a stack's name to `Steps`.

    Only the last stack predicts. `output` and `stacks` are as in `_ponder`.
    """
    last_stack, steps = [*stacks][-1], {}
    for stack, positions in stacks.items():
        found = getattr(output, stack)
        if found is None or found.recorded is None:
            continue
        predictions = step_lens.NO_PREDICTIONS
        if stack == last_stack:
            predictions = _predictions(model, output, found.recorded, positions, encoders)
        steps[stack] = step_lens.steps(
            stack, found.recorded, positions.labels, positions.kept, predictions
        )
    return steps


def _maps(model, output, source, target, read):
    """Return the recorded attention, a dict from kind to `Map`.

    Args:
        output: `ModelOutput`.
        source: `_Positions` of the encoder.
        target, read: the predicted and the read `_Positions` of the decoder.
    """
    maps = {}
    if output.encoder is not None and source is not None:
        weights = output.encoder.attention_weights
        maps["encoder"] = _map("encoder", model.encoder, weights, source, source)
    if output.decoder is not None and target is not None:
        weights = output.decoder.attention_weights
        maps["decoder"] = _map("decoder", model.decoder, weights, target, read)
        weights = output.decoder.memory_attention_weights
        maps["memory"] = _map("memory", model.decoder, weights, target, source)
    return {kind: found for kind, found in maps.items() if found is not None}


def _map(kind, layer, weights, positions, keys):
    """Return the `Map`, or None if no weights were recorded or if they are empty."""
    if weights is None or keys is None or not (positions.kept.any() and keys.kept.any()):
        return None
    weights = np.asarray(weights, "float32")[:, 0]
    if not (positions.kept.all() and keys.kept.all()):  # avoids a copy if there is no padding
        weights = weights[:, :, *np.ix_(positions.kept, keys.kept)]
    depth_positions = tuple(_depth_positions(getattr(layer, "depth", None), len(weights)))
    return Map(kind, depth_positions, weights, positions.labels, keys.labels)


def _depth_positions(depth, count):
    """Yield the `DepthPosition` of `count` attentions, in the order of computation."""
    if isinstance(depth, mixed_depth.MixedDepth):
        parts = (depth.before, depth.after)
        before, after = (len(part.block.layers) if part is not None else 0 for part in parts)
        yield from (DepthPosition("before", layer + 1) for layer in range(before))
        yield from _depth_positions(depth.recurrence, count - before - after)
        yield from (DepthPosition("after", layer + 1) for layer in range(after))
        return
    recurs = depth is not None and not isinstance(depth, stack_lib.LayeredDepth)
    layers = len(depth.block.layers) if recurs else count
    for number in range(count):
        yield DepthPosition(str(number // layers + 1), number % layers + 1)


def _inputs(features, source, encoders):
    if source is None:
        return ""
    if source.is_story:
        return " | ".join(source.labels)
    return text_label(encoders.get("inputs"), features["inputs"][0])


def _outputs(model, output, features, source, encoder):
    if model.decoder is not None and not model.class_labels:
        return text_label(encoder, features["targets"][0])
    best = np.asarray(output.logits, "float32")[0].argmax(axis=-1)
    if model.class_labels:
        return _class_label(encoder, best)
    return text_label(encoder, best[source.kept])


def _predictions(model, output, recorded, positions, encoders):
    """Return the `step_lens.Predictions` of the last stack."""
    encoder, mask = encoders.get("targets"), None
    if model.decoder is None:
        mask = output.encoder_mask
    logits = step_lens.logits_by_step(model, recorded, mask, positions.kept)
    if not model.class_labels:
        return step_lens.predictions(
            logits, positions.labels, lambda ids: token_labels(encoder, ids)
        )
    return step_lens.predictions(
        logits, ["prediction"], lambda ids: [_class_label(encoder, i) for i in ids]
    )


def _class_label(encoder, number):
    return str(number) if encoder is None else printable(encoder.decode([int(number)]))


def token_labels(encoder: TextEncoder | None, ids: Iterable[int]) -> list[str]:
    """Return a printable label for each id of a sequence.

    Without an encoder, the label is the id.

    [34, 1] of words       ->  ["bathroom", "<EOS>"]
    [37, 269] of subwords  ->  ["Hund_", "e_"]        "_" ends a word
    """
    return [_token(encoder, int(i)) for i in ids]


def text_label(encoder: TextEncoder | None, ids: Iterable[int]) -> str:
    """Return a complete sequence as text, up to EOS."""
    ids = text_encoder.cut_at_eos(ids)
    return " ".join(map(str, ids)) if encoder is None else printable(encoder.decode(ids))


def printable(text: str) -> str:
    """Return `text` with control characters and line breaks as escape sequences.

    Characters that change the writing direction are escaped too.
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _token(encoder, number):
    if number < text_encoder.NUM_RESERVED_IDS:
        return text_encoder.RESERVED_TOKENS[number]
    if encoder is None:
        return str(number)
    if isinstance(encoder, text_encoder.SubwordTextEncoder):
        subtokens = encoder.subtokens
        return printable(subtokens[number]) if number < len(subtokens) else f"ID_{number}"
    label = encoder.decode([number])
    if "\N{REPLACEMENT CHARACTER}" in label:  # a byte that is not a complete character
        return f"0x{number - text_encoder.NUM_RESERVED_IDS:02x}"
    return "<space>" if label == " " else printable(label)
