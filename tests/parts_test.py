"""Tests of the package in docs/t2t.md that has its own model, recurrence and transition."""

import os
import re
import subprocess
import sys

import pytest

from ut_keras import errors, parts

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RUN = """
import sys
import numpy as np
import trainer
folder, package = sys.argv[1:]
words = [
    f"--t2t_usr_dir={package}",
    "--problem=tiny_algo",
    "--model=capped_universal_transformer",
    "--hparams_set=damped_tiny",
    "--hparams=hidden_size=16,num_heads=2,filter_size=16,num_rec_steps=3,damping=0.25",
    "--generate_data", f"--data_dir={folder}/data", f"--tmp_dir={folder}/tmp",
    f"--output_dir={folder}/run", "--schedule=train", "--random_seed=1",
]
assert not trainer.main([*words, "--train_steps=2"])
assert not trainer.main([*words, "--train_steps=4"])  # resumes

import ut_keras
run = ut_keras.load(f"{folder}/run")
model = run.model
assert type(model).__name__ == "CappedUniversalTransformer"
model.save(f"{folder}/model.keras")
assert ut_keras.load(f"{folder}/model.keras").get_config() == model.get_config()
depth = model.encoder.depth
assert type(depth).__name__ == "DampedRecurrence" and depth.damping == 0.25
assert type(depth.block.layers[0].transition).__name__ == "GatedTransition"
ids = np.array([[2, 3, 2, 1], [3, 1, 0, 0]], np.int32)
assert model.why_not_cached == ""
kept = model.generate({"inputs": ids}, decode_length=3)
anew = model.generate({"inputs": ids}, decode_length=3, cache=False)
np.testing.assert_array_equal(kept.ids, anew.ids)
np.testing.assert_allclose(kept.scores, anew.scores, rtol=1e-5)
assert np.abs(model({"inputs": ids, "targets": ids}, training=False)).max() <= 30

from ut_keras import models
hp = model.hparams.override("recurrence_type=basic,recurrence_supervised_every=1")
by_steps = models.get(model.name, hp, vocab_sizes={"inputs": 9, "targets": 9})
assert by_steps.inspect({"inputs": ids, "targets": ids}, training=True).losses["training"] > 0
print("all of it ran")
"""


@pytest.mark.slow
def test_package_of_the_docs_trains_resumes_and_decodes(tmp_path):
    with open(os.path.join(_ROOT, "docs", "t2t.md"), encoding="utf-8") as file:
        page = file.read()
    section = page.split("## Models and parts of your own")[1].split("\n## ")[0]
    [package] = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    folder = tmp_path / "my_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(package)
    # The package registers names permanently, so the test uses a separate process.
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path), str(folder)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "all of it ran" in done.stdout, done.stdout + done.stderr


def test_part_is_found_before_layers_are_imported():
    code = (
        "from ut_keras import hparams\nhparams.get('transformer_tiny', 'ffn_layer=sigma_moe(k=2)')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=_ROOT, check=True)


def test_maker_arguments_are_checked():
    makers = parts.PartRegistry("ffn_layer")

    @makers.register("mine")
    def make(hp, side, k, name=None, rate=0.5, **more):
        return k, name, rate, more

    made = makers.get("mine(k=2, name='a', rate=1, sizes=[3])")("hp", "side")
    assert made == (2, "a", 1.0, {"sizes": [3]})
    makers.register("alone")(lambda hp: None)
    with pytest.raises(errors.UserError, match=r"arguments are hp and side\. Received: .*\(hp\)"):
        makers.get("alone")
    takes = r"^ffn_layer=mine must .* \(k, name=None, rate=0.5, \*\*more\). Received: mine"
    for wrong in ("mine", "mine(rate=1)", "mine(k=2, rate='high')"):
        with pytest.raises(errors.UserError, match=takes):
            makers.get(wrong)
