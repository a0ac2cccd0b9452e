"""Computes the tables of docs/scale.md from measured figures and published ones of devices.

python docs/scale_numbers.py             writes them into docs/scale.md

What was measured is in docs/scale_measured.json, written by benchmarks/scale.py --json.
"""

import json
import os
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import blocks  # noqa: E402

from ut_keras import hparams  # noqa: E402
from ut_keras.files import whole_file  # noqa: E402

PAGE = os.path.join(HERE, "scale.md")
MEASURED = os.path.join(HERE, "scale_measured.json")

VOCABULARY = 33708  # translate_ende_wmt32k
SETS = {"base": "transformer_base", "big": "transformer_big"}
FLOAT = 4  # bytes; weights, gradients and Adam's two slots are float32 under any activation_dtype
LENGTHS = (32, 64, 128, 256)
TARGET_SPACES = 32


class Machines(NamedTuple):
    """Devices that train together.

    Fields:
        what: str.
        replicas: int.
        flop: float. Published peak of one, dense, per second.
        memory: float, bytes of one.
        wire: float. Published bytes a second that one can send, or None where the all-reduce
            itself is published.
        all_reduce: float. Published bytes of an all-reduce a second and device, or None.
    """

    what: str
    replicas: int
    flop: float
    memory: float
    wire: float | None = None
    all_reduce: float | None = None


# Where each number is from is said on the page.
MACHINES = (
    Machines("8 A100 80 GB, NVLink, TF32", 8, 156e12, 80e9, wire=300e9),
    Machines("8 A100 80 GB, NVLink, bfloat16", 8, 312e12, 80e9, wire=300e9),
    Machines("TPU v3-8 (4 chips, 8 cores), bfloat16", 8, 61.5e12, 16 * 2**30, all_reduce=166e9),
    Machines("TPU v3-32 (16 chips, 32 cores), bfloat16", 32, 61.5e12, 16 * 2**30, all_reduce=166e9),
    Machines("64 workers, an A100 each, 25 Gbit/s, TF32", 64, 156e12, 80e9, wire=25e9 / 8),
    Machines("64 workers, an A100 each, 100 Gbit/s, TF32", 64, 156e12, 80e9, wire=100e9 / 8),
    Machines("64 workers, an A100 each, 100 Gbit/s, bfloat16", 64, 312e12, 80e9, wire=100e9 / 8),
)
# Vaswani et al. 2017, 5.1 and 5.2: seconds a step; tokens of each side in it; the P100s, and the
# rate of one that the paper reckons with.
PAPER = {"base": 0.4, "big": 1.0}
PAPER_TOKENS, PAPER_GPUS, PAPER_FLOP = 25000, 8, 9.5e12


def num_weights(hp, vocabulary=VOCABULARY):
    """Weights of a Transformer with one embedding for inputs, targets and softmax."""
    d, f = hp.hidden_size, hp.filter_size
    norm, feed_forward, attention = 2 * d, 2 * d * f + f + d, 4 * d * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    stacks = hp.num_hidden_layers * (encoder + decoder) + 2 * norm
    return vocabulary * d + TARGET_SPACES * d + stacks


def step_flop(hp, tokens, length, vocabulary=VOCABULARY):
    """Operations of one update, forward and backward; a multiplication and an addition are two.

    Args:
        tokens: int, of each side.
        length: int, of each side.
    """
    d, f = hp.hidden_size, hp.filter_size
    encoder = 4 * d * d + 2 * d * f + 2 * length * d
    decoder = 8 * d * d + 2 * d * f + 4 * length * d
    forward = tokens * (hp.num_hidden_layers * (encoder + decoder) + vocabulary * d)
    return 3 * 2 * forward


def state_bytes(hp):
    """Weights, gradients and Adam's two moments."""
    return 4 * FLOAT * num_weights(hp)


def activation_bytes(hp, tokens, length, measured):
    """What a step holds at its peak beyond the state, from transformer_base's measured peaks.

    The part that is proportional to tokens is scaled by layers x width (and vocabulary, which is
    the same), the part by tokens x length by layers x heads.
    """
    base = hparams.get("transformer_base")
    per_token, per_token_and_length = activation_rates(measured)
    logits = min(per_token, 3 * FLOAT * VOCABULARY)
    size = hp.num_hidden_layers * (5 * hp.hidden_size + hp.filter_size)
    base_size = base.num_hidden_layers * (5 * base.hidden_size + base.filter_size)
    per_token = logits + (per_token - logits) * size / base_size
    heads = hp.num_hidden_layers * hp.num_heads / (base.num_hidden_layers * base.num_heads)
    return tokens * (per_token + heads * per_token_and_length * length)


def activation_rates(measured):
    """Bytes per token of a side, and per token and position of length, from four peaks."""
    slopes = {}
    for length in sorted({point["length"] for point in measured["memory"]["points"]}):
        few, many = sorted(
            (p["sequences"] * length, p["bytes"])
            for p in measured["memory"]["points"]
            if p["length"] == length
        )
        slopes[length] = (many[1] - few[1]) / (many[0] - few[0])
    (short, at_short), (long, at_long) = slopes.items()
    per_length = max(0.0, (at_long - at_short) / (long - short))
    return at_short - per_length * short, per_length


def wire_bytes(hp, replicas):
    """Bytes that each replica sends a step: a ring's all-reduce of float32 gradients."""
    return 2 * (replicas - 1) / replicas * FLOAT * num_weights(hp)


def utilisation(name):
    """Share of the P100's rate that the paper's step times mean."""
    hp = hparams.get(SETS[name])
    work = step_flop(hp, PAPER_TOKENS, 32, 37000) / PAPER_GPUS
    return work / PAPER[name] / PAPER_FLOP


def efficiency(name, machines):
    """(seconds to compute, seconds on the wire, share of the former in both) of a step.

    Nothing is taken to overlap, so this is a lower bound as far as the wire goes.
    """
    hp = hparams.get(SETS[name])
    compute = step_flop(hp, hp.batch_size, 32) / (utilisation(name) * machines.flop)
    if machines.all_reduce:
        wire = FLOAT * num_weights(hp) / machines.all_reduce
    else:
        wire = wire_bytes(hp, machines.replicas) / machines.wire
    return compute, wire, compute / (compute + wire)


# --- The tables -----------------------------------------------------------------------------------


def measured_table(measured, part):
    """The sides of one part of benchmarks/scale.py."""
    rows = ["| | step ms, median (min) | time per token, ratio |", "|---|---|---|"]
    for name, side in measured[part]["sides"].items():
        rows.append(f"| {name} | {side['ms']:.0f} ({side['min_ms']:.0f}) | {side['per_token']} |")
    return "\n".join(rows)


def needs_table(measured):
    rows = [
        "| | weights | weights, gradients, Adam | tokens of a side | "
        + " | ".join(f"activations, length {length}" for length in LENGTHS)
        + " | arithmetic of a step |",
        "|---|---|---|---|" + "---|" * (len(LENGTHS) + 1),
    ]
    for name, set_name in SETS.items():
        hp = hparams.get(set_name)
        activations = [
            f"{activation_bytes(hp, hp.batch_size, length, measured) / 1e9:.1f} GB"
            for length in LENGTHS
        ]
        rows.append(
            f"| {name} | {num_weights(hp) / 1e6:.1f} M | {state_bytes(hp) / 1e9:.2f} GB | "
            f"{hp.batch_size} | {' | '.join(activations)} | "
            f"{step_flop(hp, hp.batch_size, 32) / 1e12:.2f} TFLOP |"
        )
    return "\n".join(rows)


def machines_table(measured):
    rows = [
        "| | | fits at length 256 | sent by each, a step | compute, ms | wire, ms | efficiency | "
        "tokens/s, both sides | batch_size for 90 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, set_name in SETS.items():
        hp = hparams.get(set_name)
        for machines in MACHINES:
            compute, wire, share = efficiency(name, machines)
            need = state_bytes(hp) + activation_bytes(hp, hp.batch_size, 256, measured)
            fits = "yes" if need < 0.9 * machines.memory else "no"
            tokens = 2 * hp.batch_size * machines.replicas / (compute + wire)
            megabytes = wire_bytes(hp, machines.replicas) / 1e6
            rows.append(
                f"| {name} | {machines.what} | {fits} ({need / 1e9:.0f} of "
                f"{machines.memory / 1e9:.0f} GB) | {megabytes:.0f} MB | {compute * 1e3:.0f} | "
                f"{wire * 1e3:.1f} | {share:.0%} | {tokens:,.0f} | "
                f"{hp.batch_size * 9 * wire / compute:,.0f} |"
            )
    return "\n".join(rows)


def texts():
    """{name: text} of everything on the page that is computed."""
    with open(MEASURED, encoding="utf-8") as file:
        measured = json.load(file)
    per_token, per_length = activation_rates(measured)
    saving, pipeline = measured["saving"], measured["input"]
    workers = measured["workers"]["sides"]
    apart, joined = workers["2 processes, unconnected"], workers["2 workers"]
    medians = joined["ms"] / apart["ms"] - 1
    fastest = joined["min_ms"] / apart["min_ms"] - 1
    sent = measured["workers"]["weights"] * FLOAT / 1e6
    return {
        "machine": f"Measured on: {measured['workers']['machine']}, TensorFlow on the CPU.",
        **{
            part: measured_table(measured, part)
            for part in ("tokens", "length", "steps", "replicas", "workers")
        },
        "overhead": (
            f"Two workers take {medians:+.0%} (by the fastest steps {fastest:+.0%}) against the "
            f"same\ntwo processes without a connection, for {sent:.0f} MB of gradients a step."
        ),
        "input": (
            f"`{pipeline['problem']}`: {pipeline['pipeline_tokens_per_second']:,} tokens/s from "
            f"the\npipeline, {pipeline['model_tokens_per_second']:,} eaten by the model: "
            f"**{pipeline['ratio']} times**."
        ),
        "saving": (
            f"50 steps of {saving['step_ms']:.0f} ms take **{saving['ratio']:.3f}** times as long "
            f"while {saving['checkpoint_mb']} MB are written beside them\n(pair by pair "
            f"{min(saving['ratios'])} to {max(saving['ratios'])}); the copy holds them up for "
            f"{saving['blocked_seconds'] * 1e3:.0f} ms."
        ),
        "rates": (
            f"transformer_base holds {per_token / 1e3:.0f} kB per token of a side, and "
            f"{per_length:,.0f} bytes more per\ntoken for every position of the length."
        ),
        "utilisation": ", ".join(f"{name} {utilisation(name):.0%}" for name in SETS) + ".",
        "needs": needs_table(measured),
        "machines": machines_table(measured),
    }


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = blocks.fill(file.read(), texts())
    with whole_file.writing(PAGE) as file:
        file.write(page)


if __name__ == "__main__":
    main()
