"""benchmarks/decode_operations.py counts operations of a search and shapes of batches."""

import pytest

PROGRAM = """HloModule search

%body.1 (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %p = (s32[], f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%p), index=1
  %sine = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %dot.2 = f32[4]{0} dot(%sine, %x)
  ROOT %out = (s32[], f32[4]{0}) tuple(%i, %dot.2)
}

%condition.1 (p: (s32[], f32[4])) -> pred[] {
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %while = (s32[], f32[4]{0}) while(%start), condition=%condition.1, body=%body.1
  ROOT %y = f32[4]{0} negate(%x)
}
"""


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("decode_operations")


def test_in_loops_counts_instructions_of_loop_bodies(command):
    assert command.in_loops(PROGRAM) == 2


def test_batches_planned_for_xla_have_little_padding(command):
    for plans in command.shapes().values():
        plain, padded, planned = plans.values()
        assert plain[2] == 1 and planned[2] <= min(padded[2], 1.4)
        assert planned[1] <= 5
    assert command.shapes()["one sentence at a time"]["padded"][:2] == (200, 4)
    assert command.shapes()["ut-decoder, 4 beams"]["padded"][2] > 2
    assert command.shapes()["ut-decoder, 4 beams"]["for XLA"][2] < 1.2
