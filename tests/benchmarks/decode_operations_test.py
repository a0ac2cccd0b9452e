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


def test_shapes_are_fewer_with_padding(command):
    for batches, before, after, padding in command.shapes().values():
        assert after <= before <= batches and 1 <= padding < 2.1
    assert command.shapes()["one sentence at a time"][1:3] == (59, 4)
