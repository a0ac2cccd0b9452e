"""Tests of the parts of benchmarks/in_jax.py that do not need JAX."""

import collections
import itertools
import json
import os
import re

import numpy as np
import pytest

from ut_keras import problems
from ut_keras.checkpoints import checkpoint_files


@pytest.fixture
def in_jax(benchmark_module):
    return benchmark_module("in_jax")


def test_batches_use_every_example_once_per_epoch(in_jax):
    batches = list(itertools.islice(in_jax._batches([(10, 4), (3, 3)], 1), 14))
    assert all(sorted(numbers) == [0, 1, 2] for shape, numbers in batches if shape == 1)
    of_ten = [numbers for shape, numbers in batches if shape == 0]
    assert {len(numbers) for numbers in of_ten} == {4}
    counts = collections.Counter(np.concatenate(of_ten).tolist())
    assert set(counts) == set(range(10))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_in_jax_rejects_folder_without_plan(in_jax, tmp_path):
    for command in ("train", "read"):
        with pytest.raises(SystemExit, match=re.escape(f"Received: {tmp_path}.")):
            in_jax.main([command, str(tmp_path)])


def test_trim_padding_removes_common_padding(in_jax):
    rows = np.zeros([2, 5, 3], np.int32)
    rows[1, 2, 0] = 7
    assert in_jax._trim_padding(rows).shape == (2, 3, 3)
    assert in_jax._trim_padding(np.zeros([2, 1])).shape == (2, 1)


def test_mask_as_list_converts_hexadecimal_masks(in_jax):
    packed = 'constant dense<"0xFD01"> : tensor<3x3xi1>'
    rows = "[[true, false, true], [true, true, true], [true, true, true]]"
    assert (
        in_jax._BITS.sub(in_jax._mask_as_list, packed) == f"constant dense<{rows}> : tensor<3x3xi1>"
    )


@pytest.mark.slow
def test_exported_cell_becomes_a_run(in_jax, monkeypatch, tmp_path):
    from results import definitions

    name = "decoder_test_digits"
    problems.get(name).generate_data(str(tmp_path), str(tmp_path))
    cell = definitions.Cell(
        name="digits/adaptive",
        problem=name,
        model="universal_transformer",
        hparams_set="adaptive_universal_transformer_quick",
        hparams="hidden_size=8,filter_size=8,num_heads=2,min_length_bucket=64,batch_size=640,"
        "learning_rate_schedule=constant",
        updates=4,
        every=2,
        valid="accuracy",
        scores=(definitions.Score("accuracy"),),
    )
    monkeypatch.setattr(definitions, "names", lambda: ["t"])
    monkeypatch.setattr(definitions, "load", lambda name: definitions.Table("A title", (cell,)))
    folder = tmp_path / "there"
    argv = [str(folder), "--table=t", "--only=digits/adaptive", f"--data_dir={tmp_path}"]
    in_jax.main(["write", *argv])
    plan = json.loads((folder / "plan.json").read_text())
    (update,) = plan["updates"]
    assert (plan["last"], update["size"]) == (4, 8)
    module = (folder / "update-0.mlir").read_text()
    assert "stablehlo.while" in module and "mhlo.copy" not in module
    # The module computes the causal mask and does not contain the values of the mask.
    assert not re.search(r'dense<"0x[^>]*> : tensor<[0-9x]*i1>', module)
    values, step, _ = in_jax._state(folder)
    assert (step, sorted(update["order"])) == (0, list(range(len(values))))

    back = ["read", *argv, f"--runs_dir={tmp_path}/runs", "--where=a GPU"]
    with pytest.raises(SystemExit, match="4 updates. Received: 0"):
        in_jax.main(back)
    # The scalar variables count the updates.
    values = [value + 4 if value.shape == () else value for value in values]
    in_jax._save(folder, values, step=4, seconds=2.5)
    with pytest.raises(SystemExit, match="'seed': 2, .*Received: {'seed': 1}"):
        in_jax.main([*back, "--seed=2"])
    in_jax.main(back)
    with pytest.raises(SystemExit, match="Received: .*seed-1"):
        in_jax.main(back)
    (run,) = (tmp_path / "runs").glob("*/seed-1")
    assert checkpoint_files.newest(str(run)) == os.path.join(str(run), "model.ckpt-4")
    record = json.loads((run / "paper.json").read_text())
    assert (record["seconds"], record["where"], record["trained"]) == (2.5, "a GPU", False)
