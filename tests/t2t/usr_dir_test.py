import importlib
import os
import subprocess
import sys

import pytest
from absl import flags as absl_flags

import trainer
from ut_keras import hparams, models, problems
from ut_keras.bin import command, command_line, datagen, flags
from ut_keras.data import tfrecords
from ut_keras.data.writing import process_pool
from ut_keras.registry import UnknownNameError
from ut_keras.t2t import usr_dir
from ut_keras.t2t.missing import Missing


@pytest.mark.parametrize("folder", ["trainer", "problems", "hparams", "json", "my-package"])
def test_package_of_any_folder_name_is_loaded(load, folder):
    """The package does not hide any module, and no module hides the package."""
    hidden = {name: sys.modules.get(name) for name in ("trainer", "problems", "hparams", "json")}
    path = list(sys.path)
    load(
        """
        import json
        from ut_keras.text import text_encoder
        from ut_keras.problems import problem

        @problem.register("of_any_folder")
        class OfAnyFolder(problem.Problem):
            def feature_encoders(self, data_dir):
                return {"targets": json.dumps(text_encoder.EOS)}
        """
        if folder != "json"
        else """
        from ut_keras.problems import problem
        problem.register("of_any_folder")(problem.Problem)
        """,
        folder=f"gcp/{folder}",
    )
    assert "of_any_folder" in problems.names()
    assert {name: sys.modules.get(name) for name in hidden} == hidden
    assert sys.path == path


def test_package_imports_itself_and_its_neighbours(load, tmp_path):
    (tmp_path / "neighbour.py").write_text(
        "import tensorflow as tf\n"
        "from shelf.problems import kind\n"
        "from tensor2tensor.data_generators import text_problems\n"
        "assert kind.SHORT is text_problems.Text2TextProblem and tf.ConfigProto\n"
        "WORD = 'beside'\n"
    )
    (tmp_path / "shelf" / "problems").mkdir(parents=True)
    (tmp_path / "shelf" / "problems" / "kind.py").write_text(
        "from tensor2tensor.data_generators.text_problems import Text2TextProblem as SHORT\n"
    )
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "words.py").write_text("WORD = 'inside'\n")
    (tmp_path / "kept" / "__init__.py").write_text(
        "import neighbour\n"
        "import kept.words\n"
        "from kept import words\n"
        "from . import words as same\n"
        "def later():\n"
        "    import kept.words as again\n"
        "    return neighbour.WORD, kept.words.WORD, words is same is again\n"
    )
    try:
        usr_dir.load(str(tmp_path / "kept"))
        package = sys.modules[usr_dir._module_name(str(tmp_path / "kept"))]
        assert package.later() == ("beside", "inside", True)
    finally:
        for name in ("neighbour", "shelf.problems.kind", "shelf.problems", "shelf"):
            sys.modules.pop(name, None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("kept")


@pytest.mark.parametrize("folder", ["problems", "hparams"])
def test_package_named_as_one_of_ut_keras_imports_itself(load, registries, tmp_path, folder):
    known = {"problems": "problem", "hparams": "registry"}[folder]
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "words.py").write_text("WORD = 'inside'\n")
    (tmp_path / folder / "__init__.py").write_text(
        f"from {folder} import words\n"
        f"import {folder}.words as same\n"
        f"from {folder}.words import WORD\n"
        f"from {folder} import {known} as known\n"
        f"import {folder}.{known}\n"
    )
    usr_dir.load(str(tmp_path / folder))
    package = sys.modules[usr_dir._module_name(str(tmp_path / folder))]
    assert (package.words is package.same, package.WORD) == (True, "inside")
    assert package.known is importlib.import_module(f"ut_keras.{folder}.{known}")


@pytest.mark.parametrize("folder", ["problems", "hparams"])
def test_package_named_as_one_of_ut_keras_combines_both(load, registries, tmp_path, folder):
    """An attribute that the package has imported from ut_keras is not a submodule."""
    known = {"problems": "problem", "hparams": "registry"}[folder]
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "words.py").write_text("WORD = 'inside'\n")
    (tmp_path / folder / "__init__.py").write_text(
        f"NUMBER = 3\nfrom {folder} import {known}\nfrom {folder} import reader\n"
    )
    (tmp_path / folder / "reader.py").write_text(
        f"from {folder}.{known} import register\n"
        f"from {folder} import words, {known} as known\n"
        f"from {folder} import *\n"
    )
    usr_dir.load(str(tmp_path / folder))
    reader = sys.modules[usr_dir._module_name(str(tmp_path / folder))].reader
    expected = importlib.import_module(f"ut_keras.{folder}.{known}")
    assert reader.known is expected
    assert reader.register is expected.register
    assert (reader.words.WORD, reader.NUMBER) == ("inside", 3)


def test_package_is_found_on_its_own_path(registries, tmp_path, monkeypatch):
    """The package's folder is on the path, as with PYTHONPATH=my_package."""
    parts = tmp_path / "package" / "parts_of_it"
    parts.mkdir(parents=True)
    (parts / "__init__.py").write_text("")
    (parts / "sets.py").write_text(
        "from tensor2tensor.models import transformer\n"
        "from tensor2tensor.utils import registry\n"
        "@registry.register_hparams\n"
        "def by_its_own_path():\n"
        "    return transformer.transformer_tiny()\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "package")
    (tmp_path / "package" / "__init__.py").write_text("import parts_of_it.sets\n")
    usr_dir.load(str(tmp_path / "package"))
    assert hparams.get("by_its_own_path").hidden_size == 128


def test_stand_ins_are_visible_to_the_package_only(load):
    load(
        """
        import tensor2tensor.data_generators.text_problems as by_path
        from tensor2tensor.data_generators import text_problems
        from tensor2tensor.utils.registry import register_problem
        from tensor2tensor import problems
        import tensor2tensor.utils.metrics

        assert by_path.Text2TextProblem is text_problems.Text2TextProblem
        assert tensor2tensor.utils.metrics.Metrics.ACC == "accuracy"
        assert "tiny_algo" in problems.available()

        @register_problem("with_a_name")
        class Other(text_problems.Text2TextProblem):
            pass
        """
    )
    assert problems.get("with_a_name").filename == "with_a_name"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensor2tensor")


def test_tf_of_package_has_names_of_both_versions(load):
    folder = load(
        """
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        SPLIT = tf.estimator.ModeKeys.EVAL, v1.estimator.ModeKeys.TRAIN

        def later(path):
            with tf.gfile.Open(path, "w") as file:
                file.write("word")
            return tf.io.gfile.exists(path), v1.gfile.Exists(path), tf.VarLenFeature(tf.int64)

        from tensorflow.python.keras.layers.core import *

        class Slow(tf.train.Optimizer, tf.Module):
            build = tf_utils.shape_type_conversion

        assert tf.train.Checkpoint and tf.train is tf.train
        tf.train.Nothing
        """
    )
    package = sys.modules[usr_dir._module_name(str(folder))]
    assert package.SPLIT == ("eval", "train")
    exists, same, field = package.later(str(folder / "file.txt"))
    assert exists and same and field.dtype == "int64"
    import tensorflow as tf

    assert not hasattr(tf, "gfile")


def test_unsupported_names_leave_the_rest_usable(load):
    load(
        """
        import tensorflow as tf
        import tensor2tensor.bin.t2t_trainer
        from tensor2tensor.data_generators import gym_env, librispeech
        from tensor2tensor.data_generators.text_problems import Chopped
        from tensor2tensor.layers import common_attention as c
        from tensor2tensor.models.transformer import features_to_nonpadding
        from tensor2tensor.utils import registry, trainer_lib, expert_utils
        from tensorflow.contrib import slim
        tf.contrib.slim

        trainer_lib.set_random_seed(1)

        class Attention(c.Layer):
            pass

        @registry.register_problem
        class Heard(librispeech.Librispeech):
            pass

        @expert_utils.add_scope("x")
        def body(x):
            return slim.conv2d(x)

        @registry.register_hparams
        def kept_set():
            from tensor2tensor.models import transformer
            return transformer.transformer_tiny()
        """
    )
    assert hparams.get("kept_set").hidden_size == 128
    with pytest.raises(Missing, match="tensor2tensor.data_generators.librispeech.Librispeech,"):
        problems.get("heard")


def test_tensorflow_1_name_raises_when_used(load):
    folder = load(
        """
        import tensorflow as tf
        from tensorflow.contrib import slim
        from tensorflow.contrib.training import HParams
        from tensorflow.estimator import ModeKeys

        assert HParams(a=tf.estimator.ModeKeys.TRAIN).a == ModeKeys.TRAIN == "train"

        def use():
            return tf.contrib.layers.dense(1)

        def use_estimator():
            return tf.estimator.Estimator(1)

        def use_slim():
            return slim.conv2d(1)
        """
    )
    package = sys.modules[usr_dir._module_name(os.path.realpath(folder))]
    names = {"": "contrib.layers.dense", "_slim": "contrib.slim", "_estimator": "estimator.Est"}
    for use, name in ((getattr(package, f"use{which}"), names[which]) for which in names):
        with pytest.raises(Missing, match=f"tf.{name}.*TensorFlow 1"):
            use()


@pytest.mark.parametrize(
    "line",
    [
        "import keras",
        pytest.param("from ut_keras.text import text_encoder_op", marks=pytest.mark.slow),
    ],
)
def test_package_that_imports_tensorflow_shows_no_log_lines(tmp_path, line):
    """TensorFlow writes log lines during its import, also if Keras imports TensorFlow."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(f"{line}\nimport keras\nprint(keras.Model)\n")
    code = (
        f"from ut_keras.t2t import usr_dir; usr_dir.load({str(package)!r});"
        "import tensorflow; tensorflow.constant(0)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "Model" in done.stdout


def test_unsupported_name_ends_command_with_one_line(tmp_path, registries, capsys):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("\nfrom tensor2tensor.rl import ppo\nint(ppo)\n")
    assert trainer.main([f"--t2t_usr_dir={package}", "--registry_help"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "tensor2tensor.rl" in line and "__init__.py, line 3" in line


def test_t2t_model_raises_when_selected(load, tmp_path, capsys):
    folder = load(
        """
        from tensor2tensor.layers import common_layers
        from tensor2tensor.models import transformer
        from tensor2tensor.utils import registry, t2t_model

        @registry.register_model
        class WithABody(t2t_model.T2TModel):
            def body(self, features):
                return common_layers.dense(features["inputs"], 8)

        @registry.register_model
        class Joined(transformer.Transformer):
            def body(self, features):
                return super(Joined, self).body(features)

        @registry.register_model("renamed")
        class Renamed(transformer.Transformer):
            '''Nothing of its own.'''
        """
    )
    argv = ["--problem=tiny_algo", "--hparams_set=transformer_tiny", "--model=with_a_body"]
    argv += [f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run", "--generate_data"]
    assert trainer.main(argv) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "WithABody" in line and str(folder / "__init__.py") in line and "docs/t2t.md" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["package"]
    with pytest.raises(UnknownNameError, match="TensorFlow 1 layers"):
        models.check_name("with_a_body")
    with pytest.raises(UnknownNameError, match=r"t2t_package\.md .*A model with a `body`"):
        models.check_name("joined")
    models.check_name("renamed")
    assert "with_a_body" not in models.names() and "renamed" in models.names()


def test_unused_registrations_print_notes(load, capsys):
    load(
        """
        from tensor2tensor.layers import modalities
        from tensor2tensor.models import transformer
        from tensor2tensor.utils import registry

        @registry.register_optimizer
        def my_sgd(learning_rate, hparams):
            raise AssertionError

        @registry.register_attack_params("fgsm")
        def params():
            raise AssertionError

        @registry.register_symbol_modality("letters")
        class Letters(modalities.SymbolModality):
            pass

        @registry.register_hparams
        def beside_an_optimizer():
            return transformer.transformer_tiny()
        """
    )
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("note: ")]
    assert any("my_sgd" in line and "--hparams=optimizer=" in line for line in lines)
    assert any("attack" in line and "fgsm" in line for line in lines)
    assert any("modality letters" in line and "SYMBOL" in line for line in lines)
    assert hparams.get("beside_an_optimizer").hidden_size == 128


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["tiny"], "hparams set transformer_tiny comes"),
        (["tiny", "big"], "hparams sets transformer_tiny, transformer_big come"),
        (
            ["tiny", "big", "base", "small", "l2"],
            "hparams sets transformer_tiny, transformer_big, transformer_base and 2 others come",
        ),
    ],
)
def test_replaced_names_print_one_note(load, capsys, names, line):
    load(
        f"""
        from tensor2tensor.models import transformer
        from tensor2tensor.utils import registry

        for name in {names}:
            registry.register_hparams(f"transformer_{{name}}")(transformer.transformer_tiny)
        """
    )
    assert capsys.readouterr().out == f"note: {line} from the package, not from ut_keras\n"


@pytest.mark.slow  # processes start slowly
def test_worker_processes_load_the_package(load):
    folder = load(
        """
        from tensor2tensor.data_generators import text_problems

        def work(item):
            return item + text_problems.Text2TextProblem().max_subtoken_length
        """,
        folder="gcp/trainer",
    )
    work = sys.modules[usr_dir._module_name(str(folder))].work
    assert process_pool.run(work, [1, 2], num_processes=2) == [201, 202]


def test_failing_package_leaves_no_state(tmp_path, registries):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("1 / 0\n")
    path, first = list(sys.path), list(process_pool._preparations)
    with pytest.raises(ZeroDivisionError):
        usr_dir.load(str(package))
    assert sys.path == path and process_pool._preparations == first
    assert usr_dir._module_name(str(package)) not in sys.modules


_WITH_FLAGS = """
import tensorflow as tf
from absl import flags as absl_flags
from tensor2tensor.data_generators import text_problems
from tensor2tensor.utils import registry

flags = tf.flags
flags.DEFINE_integer("{name}", 3, "A flag of the package.")
SEEN_AT_IMPORT = absl_flags.FLAGS.data_dir

@registry.register_problem
class FlaggedLines(text_problems.Text2TextProblem):
    approx_vocab_size = 2**8
    is_generate_per_split = True
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        assert flags.FLAGS.tmp_dir == tmp_dir and flags.FLAGS.problem == "flagged_lines"
        for i in range(flags.FLAGS.{name}):
            yield {{"inputs": f"line {{i}}", "targets": f"{{i}}"}}
"""


def test_package_defines_and_reads_flags(tmp_path, registries, capsys):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(_WITH_FLAGS.format(name="number_of_lines"))
    words = [
        f"--t2t_usr_dir={package}",
        "--problem=flagged_lines",
        f"--data_dir={tmp_path / 'data'}",
        f"--tmp_dir={tmp_path / 'tmp'}",
    ]
    assert datagen.main([*words, "--number_of_lines=7"]) == 0
    assert tfrecords.is_complete(str(tmp_path / "data"), "flagged_lines", "dev")
    paths = tfrecords.find(str(tmp_path / "data"), "flagged_lines", "dev")
    assert sum(1 for path in paths for _ in tfrecords.read(path)) == 7
    loaded = sys.modules[usr_dir._module_name(os.path.realpath(package))]
    assert str(tmp_path / "data") == loaded.SEEN_AT_IMPORT
    capsys.readouterr()
    for wrong, message in (
        ("--number_of_lines=many", "--number_of_lines=many"),
        ("--number_of_linse=7", "Unknown flag: '--number_of_linse'"),
    ):
        assert datagen.main([*words, wrong]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert message in line
    assert datagen.main([*words[1:], "--number_of_lines=7"]) == 2
    assert "Unknown flag" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["source", "min_steps"])
def test_package_may_define_flags_of_another_command_of_t2t(tmp_path, registries, name):
    """`t2t-translate-all` has these flags, but `t2t-decoder` does not."""
    (tmp_path / "__init__.py").write_text(_WITH_FLAGS.format(name=name))
    words, rest = [f"--{name}=7", f"--data_dir={tmp_path}"], []
    args = command_line.parse(flags.DECODER, words, "ut-decoder", "", rest)
    assert command.import_user_package(str(tmp_path), vars(args), rest) == []
    assert absl_flags.FLAGS[name].value == 7
    delattr(absl_flags.FLAGS, name)


def test_argparse_flags_are_left_to_the_package(tmp_path, registries, capsys, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    source = _WITH_FLAGS.format(name="of_argparse").replace("flagged_lines", "parsed_lines")
    source = source.replace("FlaggedLines", "ParsedLines").replace(
        "        for i in",
        "        parser = argparse.ArgumentParser()\n"
        "        parser.add_argument('--language')\n"
        "        assert parser.parse_known_args()[0].language == 'cs'\n"
        "        for i in",
    )
    (package / "__init__.py").write_text("import argparse\n" + source)
    words = [
        f"--t2t_usr_dir={package}",
        "--problem=parsed_lines",
        f"--data_dir={tmp_path / 'data'}",
        f"--tmp_dir={tmp_path / 'tmp'}",
        "--language=cs",
    ]
    monkeypatch.setattr(sys, "argv", ["ut-datagen", *words])
    assert datagen.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("argparse" in line and line.endswith("--language=cs") for line in lines)
