"""benchmarks/gpu_program.py counts the kernels of a program for a GPU."""

import pytest

_PROGRAM = """
%added (a: f32[4,8], b: f32[2,4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  %b = f32[2,4,8]{2,1,0} parameter(1)
  %i = s32[] constant(0)
  %slice = f32[1,4,8]{2,1,0} dynamic-slice(%b, %i, %i, %i), dynamic_slice_sizes={1,4,8}
  %row = f32[4,8]{1,0} bitcast(%slice)
  ROOT %sum = f32[4,8]{1,0} add(%a, %row)
}

%product (x: bf16[4,8], y: bf16[8,16]) -> bf16[4,16] {
  %x = bf16[4,8]{1,0} parameter(0)
  %y = bf16[8,16]{1,0} parameter(1)
  ROOT %dot = bf16[4,16]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (state: (f32[4,8], f32[2,4,8])) -> (f32[4,8], f32[2,4,8]) {
  %state = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) parameter(0)
  %first = f32[4,8]{1,0} get-tuple-element(%state), index=0
  %second = f32[2,4,8]{2,1,0} get-tuple-element(%state), index=1
  %fusion.1 = f32[4,8]{1,0} fusion(%first, %second), kind=kLoop, calls=%added
  ROOT %both = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) tuple(%fusion.1, %second)
}

ENTRY %main (p: f32[4,8], q: f32[2,4,8], x: bf16[4,8], y: bf16[8,16]) -> bf16[4,16] {
  %p = f32[4,8]{1,0} parameter(0)
  %q = f32[2,4,8]{2,1,0} parameter(1)
  %x = bf16[4,8]{1,0} parameter(2)
  %y = bf16[8,16]{1,0} parameter(3)
  %start = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) tuple(%p, %q)
  %loop = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) while(%start), condition=%c, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
  ROOT %fusion.2 = bf16[4,16]{1,0} fusion(%x, %y), kind=kCustom, calls=%product, \
metadata={op_name="dense/MatMul"}
}
"""


_CONDITIONAL = """
%rows (table: f32[64,8], at: s32[2,1], new: f32[2,8]) -> f32[64,8] {
  %table = f32[64,8]{1,0} parameter(0)
  %at = s32[2,1]{1,0} parameter(1)
  %new = f32[2,8]{1,0} parameter(2)
  ROOT %scatter = f32[64,8]{1,0} scatter(%table, %at, %new), to_apply=%replace
}

%taken (state: (f32[64,8], s32[2,1], f32[2,8])) -> f32[64,8] {
  %state = (f32[64,8]{1,0}, s32[2,1]{1,0}, f32[2,8]{1,0}) parameter(0)
  %t = f32[64,8]{1,0} get-tuple-element(%state), index=0
  %i = s32[2,1]{1,0} get-tuple-element(%state), index=1
  %n = f32[2,8]{1,0} get-tuple-element(%state), index=2
  ROOT %fusion.1 = f32[64,8]{1,0} fusion(%t, %i, %n), kind=kInput, calls=%rows
}

%skipped (state.1: f32[64,8]) -> f32[64,8] {
  ROOT %state.1 = f32[64,8]{1,0} parameter(0)
}

ENTRY %main (p: pred[], q: (f32[64,8], s32[2,1], f32[2,8]), r: f32[64,8]) -> f32[64,8] {
  %p = pred[] parameter(0)
  %q = (f32[64,8]{1,0}, s32[2,1]{1,0}, f32[2,8]{1,0}) parameter(1)
  %r = f32[64,8]{1,0} parameter(2)
  ROOT %if = f32[64,8]{1,0} conditional(%p, %q, %r), true_computation=%taken, \
false_computation=%skipped
}
"""


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("gpu_program")


def test_kernels_have_their_bytes_and_products(command):
    in_loop, product = command.kernels_of(_PROGRAM)
    # The loop reads one of the two slices. The tensors [4, 8] have 128 bytes.
    assert (in_loop.name, in_loop.times, in_loop.bytes, in_loop.flop) == ("fusion.1", 5, 384, 0)
    assert (product.times, product.flop, product.source) == (1, 2 * 4 * 16 * 8, "dense/MatMul")
    assert product.bytes == 2 * (4 * 8 + 8 * 16 + 4 * 16)


def test_conditional_counts_its_longer_branch(command):
    (kernel,) = command.kernels_of(_CONDITIONAL)
    # Of the table, the scatter writes only two rows. It reads two indices and two rows.
    assert (kernel.name, kernel.bytes) == ("fusion.1", 2 * 8 * 4 + 2 * 4 + 2 * 8 * 4)


def test_table_has_one_line_per_version(command):
    compiled = command.Compiled(4.5, 30.2, command.kernels_of(_PROGRAM))
    lines = command.table("b", {"now": compiled}, shown=1)
    assert lines[2].split() == ["now", "4.50", "6", "0.0", "30", "0.0"]
    assert len(lines) == 4 and "5 x 0.0 MB, fusion.1" in lines[3]


def test_nested_loops_use_their_own_numbers_of_iterations(command):
    start, rest = _PROGRAM.replace("known_trip_count", "other").split("%body (state")
    middle = """%outer (s: (f32[4,8], f32[2,4,8])) -> (f32[4,8], f32[2,4,8]) {
  %s = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) parameter(0)
  ROOT %inner = (f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) while(%s), condition=%c, body=%body
}

%body (state"""
    nested = start + middle + rest.replace("condition=%c, body=%body", "condition=%c, body=%outer")

    def times(iterations):
        return [kernel.times for kernel in command.kernels_of(nested, iterations)]

    assert times((7, 3)) == [21, 1] and times((7,)) == [49, 1] and times((7, 0)) == [0, 1]
    line = command.table("b", {"now": command.Compiled(1, 2, [])}, tokens=9)[1]
    assert line.split()[-1] == "tokens/s"


def test_sizes_are_checked(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["--sizes=d"])
    assert "Received: 'd'." in capsys.readouterr().err
