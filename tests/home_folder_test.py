"""Tests that public functions expand "~" in paths, as a shell does in commands."""

import os
import shutil

import pytest

import ut_keras
from tests import t2t_import_test
from tests.inference import export_models
from tests.visualize import figures_test
from ut_keras import hparam_schema, hparams, models, t2t_import
from ut_keras.inference import feature_record
from ut_keras.inference.saved_run import SavedRun
from ut_keras.problems import problem, text_problems
from ut_keras.t2t import usr_dir
from ut_keras.text import text_encoder
from ut_keras.visualize import figures

_HP = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2,filter_size=8,batch_size=64")


class _Lines(text_problems.Text2TextProblem):
    name = "lines_in_the_home_folder"
    vocab_type = "tokens"
    num_train_shards = 1

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        with open(os.path.join(tmp_dir, "words.txt"), encoding="utf-8") as file:
            for word in file.read().split():
                yield {"inputs": word, "targets": word}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Make an empty home folder, and check that no folder "~" was made elsewhere."""
    folder = tmp_path / "home"
    (tmp_path / "other").mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path / "other")
    yield folder
    assert not os.listdir(tmp_path / "other")


def test_problem_expands_the_home_folder(home):
    (home / "raw").mkdir()
    (home / "raw" / "words.txt").write_text("two dogs run")
    lines = _Lines()
    lines.generate_data("~/data", "~/raw", num_processes=1)
    assert "vocab.lines_in_the_home_folder.tokens" in os.listdir(home / "data")
    assert lines.split_files("dev", "~/data")[0].startswith(str(home))
    assert len(list(lines.dataset("train", "~/data", _HP, seed=0))) == 1
    size = lines.feature_specs("~/data")["inputs"].vocab_size
    model = models.get("transformer", _HP, lines, "~/data")
    assert model.specs["inputs"].vocab_size == size
    assert SavedRun.of(model, lines, "~/data").encoders["inputs"].vocab_size == size


def test_hooks_of_a_problem_get_the_home_folder(home):
    """A user's class opens files itself, and Python's `open` does not expand "~"."""
    received = []

    class Hooks(problem.Problem):
        name = "hooks"

        def feature_encoders(self, data_dir):
            received.append(data_dir)
            return dict.fromkeys(("inputs", "targets"), text_encoder.ByteTextEncoder())

        def generate_samples(self, split, data_dir, tmp_dir, seed):
            received.extend([data_dir, tmp_dir])
            yield {"inputs": "a", "targets": "b"}

    hooks = Hooks()
    hooks.generate_data("~/data", "~/raw", num_processes=1)
    next(iter(hooks.dataset("dev", "~/data", _HP)))
    feature_record.from_problem(hooks, "~/data")
    models.get("transformer", _HP, hooks, "~/data")
    assert set(received) == {str(home / "data"), str(home / "raw")}


def test_models_and_runs_expand_the_home_folder(home):
    model, encoders = export_models.build("encoder_symbols")
    model.save("~/model.keras")
    model.save_weights("~/model.weights.h5")
    model.load_weights("~/model.weights.h5")
    SavedRun(model, encoders).save("~/run")
    assert sorted(os.listdir(home)) == ["model.keras", "model.weights.h5", "run"]
    assert ut_keras.load("~/model.keras").name == model.name
    assert ut_keras.load("~/run").encoders["inputs"].vocab_size == encoders["inputs"].vocab_size


@pytest.mark.parametrize(
    "encoder",
    [
        text_encoder.TokenTextEncoder(tokens=["a"]),
        text_encoder.SubwordTextEncoder(subtokens=["<pad>_", "<EOS>_", "a_"]),
    ],
)
def test_vocabularies_expand_the_home_folder(encoder, home):
    encoder.store_to_file("~/vocab")
    assert type(encoder)(filename="~/vocab").entries == encoder.entries
    text_encoder.store_new(encoder, "~/vocab.new")
    assert sorted(os.listdir(home)) == ["vocab", "vocab.new"]


def test_hparams_expand_the_home_folder(home):
    hparam_schema.save(_HP, "~/hparams.json")
    assert hparam_schema.load("~/hparams.json") == _HP
    assert os.listdir(home) == ["hparams.json"]


def test_t2t_checkpoint_and_package_in_the_home_folder(home, registries):
    shutil.copytree(t2t_import_test._folder("transformer"), home / "run")
    assert t2t_import.newest_checkpoint("~/run").startswith(str(home))
    assert t2t_import.read_checkpoint("~/run", "transformer/")
    assert t2t_import.load_checkpoint("~/run", "transformer").name == "transformer"
    (home / "package_in_the_home_folder").mkdir()
    (home / "package_in_the_home_folder" / "__init__.py").write_text("")
    usr_dir.load("~/package_in_the_home_folder")


def test_pictures_in_the_home_folder(home):
    (home / "pictures").mkdir()
    figures.check_only_own_files("~/pictures")
    paths = figures.save_all(figures_test._seen(encoder=figures_test._map()), "~/pictures")
    assert paths
    assert sorted(paths) == sorted(str(path) for path in (home / "pictures").iterdir())
