import os
import pickle
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_keras
from tests.bin import small_run
from tests.inference import export_models
from tests.models import examples
from ut_keras import optimizers, pretrained, problems
from ut_keras.bin import datagen, decoder
from ut_keras.checkpoints import checkpoint
from ut_keras.decoding import options as options_lib
from ut_keras.errors import DataError, UsageError
from ut_keras.hparam_schema import HParamError
from ut_keras.inference import feature_record, line_encoding, saved_run, text_model
from ut_keras.text import text_encoder

TEXTS = ["0 1 1 0", "1", "1 1 1 0 0 0 1"]


@pytest.fixture(scope="module")
def problem():
    return problems.get(small_run.PROBLEM)


@pytest.fixture(scope="module")
def run(tmp_path_factory, problem):
    """Return the folder of a run with the files that the commands write."""
    folder = tmp_path_factory.mktemp("run")
    small_run.write(folder)
    feature_record.save(str(folder), feature_record.from_problem(problem, None))
    return folder


@pytest.fixture(scope="module")
def loaded(run):
    return ut_keras.load(str(run))


def test_translate_matches_ut_decoder(run, loaded, tmp_path):
    (tmp_path / "source").write_text("\n".join(TEXTS) + "\n")
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}"]
    argv += [f"--decode_from_file={tmp_path}/source", f"--decode_to_file={tmp_path}/target"]
    assert decoder.main(argv) == 0
    [name] = [name for name in os.listdir(tmp_path) if name.startswith("target")]
    written = (tmp_path / name).read_text().splitlines()
    assert [loaded.translate([text])[0] for text in TEXTS] == written
    assert loaded.translate(TEXTS) == written
    assert len(set(written)) > 1


def test_generate_maximum_length_does_not_depend_on_the_batch(loaded):
    options = {
        "beam_size": 1,
        "decode_length": 2,
        "min_length": 99,
    }  # no output ends before its limit

    def written(texts, **changed):
        return [beams[0] for beams in loaded.generate(texts, **options, **changed)]

    together = written(TEXTS)
    for text, beam in zip(TEXTS, together, strict=True):
        [alone] = written([text])
        assert alone == (beam[0], pytest.approx(beam[1], rel=1e-4))
    # Without per-example limits, the outputs depend on the other texts of the batch, as in T2T.
    assert written(TEXTS, per_example_length=False) != together
    with pytest.warns(DeprecationWarning, match="own_room.*per_example_length") as caught:
        old = written(TEXTS, own_room=False)
    assert old == written(TEXTS, per_example_length=False)
    assert len(caught) == 1


def test_translate_keeps_order(loaded):
    texts = [" ".join("01"[(number >> i) % 2] for i in range(4)) for number in range(16)]
    alone = [loaded.translate([text], beam_size=1, decode_length=3)[0] for text in texts]
    texts, alone = texts * 9, alone * 9
    together = loaded.translate(texts, beam_size=1, decode_length=3)
    assert together == alone
    assert loaded.translate([]) == []
    assert loaded.translate(iter(texts), beam_size=1, decode_length=3) == together


def test_generate_returns_beams(loaded):
    model, encoder = loaded.model, loaded.encoders["targets"]
    ids = [[*loaded.encoders["inputs"].encode(TEXTS[0]), text_encoder.EOS]]
    wanted = model.generate({"inputs": ids}, beam_size=3, decode_length=4, per_example_length=True)
    [beams] = loaded.generate(TEXTS[:1], beam_size=3, decode_length=4)
    assert [text for text, _ in beams] == [
        encoder.decode(text_encoder.cut_at_eos(row)) for row in wanted.ids[0].numpy()
    ]
    assert [score for _, score in beams] == pytest.approx(wanted.scores[0].numpy().tolist())


@pytest.mark.slow
def test_generate_traces_once_for_all_values(loaded):
    """The search and sampling are each traced once, for all values of their options.

    Each score matches `model.generate`.
    """
    model = loaded.model
    ids = [[*loaded.encoders["inputs"].encode(TEXTS[0]), text_encoder.EOS]]

    def compare(options):
        wanted = model.generate({"inputs": ids}, **options)
        [beams] = loaded.generate(TEXTS[:1], **options)
        assert [score for _, score in beams] == pytest.approx(wanted.scores[0].numpy().tolist())

    number = None
    compiled = model.compiled_functions.of_decoding()
    for i in range(3):
        searching = {"beam_size": 2, "alpha": 0.2 * i, "decode_length": 2 + i}
        compare({**searching, "min_length": 1 + i, "eos_penalty": 0.5 + i})
        compare({"temperature": 0.5 + i, "seed": i, "top_k": i, "top_p": 0.5, "decode_length": 3})
        if i:
            assert len(compiled) == number
        number = len(compiled)
    counts = (search.experimental_get_tracing_count() for search in compiled.values())
    assert set(counts) == {1}


def test_generate_samples_differ_between_batches(loaded):
    """With a seed, a second call gives the same samples."""
    texts = TEXTS[:1] * 65
    for seed in ({}, {"seed": 7}):
        drawn = loaded.generate(texts, temperature=3.0, decode_length=20, **seed)
        assert drawn[0] != drawn[64]  # both are the first examples of a batch
    again = [loaded.generate(texts[:3], temperature=3.0, seed=7, decode_length=9) for _ in "12"]
    assert again[0] == again[1]


def test_pickle_keeps_weights(loaded):
    copied = pickle.loads(pickle.dumps(loaded))
    assert copied.model is not loaded.model
    options = {"beam_size": 3, "decode_length": 3}
    assert copied.generate(TEXTS, **options) == loaded.generate(TEXTS, **options)


def test_load_works_without_data(tmp_path):
    """The run uses subwords from a data folder that is empty when the run is loaded."""
    data = tmp_path / "data"
    data.mkdir()
    lines = "".join(f"number {i}\tis {i}\n" for i in range(40))
    for split in ("train", "dev"):
        (data / f"{split}.tsv").write_text(lines)
    name = "text2text_tsv"
    assert datagen.main([f"--problem={name}", f"--data_dir={data}", f"--tmp_dir={data}"]) == 0
    folder = tmp_path / "run"
    folder.mkdir()
    small_run.write(folder, data_dir=data, problem=name)
    feature_record.save(str(folder), feature_record.from_problem(problems.get(name), str(data)))
    shutil.rmtree(data)
    data.mkdir()
    [text] = ut_keras.load(str(folder)).translate(["number 7"], beam_size=1, decode_length=4)
    assert isinstance(text, str)


def test_classify_returns_classes(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        (data / f"{split}.tsv").write_text("fine day\tgood\nbad day\tbad\n" * 9)
    name = "text2class_tsv"
    assert datagen.main([f"--problem={name}", f"--data_dir={data}", f"--tmp_dir={data}"]) == 0
    small_run.write(tmp_path, data_dir=data, problem=name)
    feature_record.save(str(tmp_path), feature_record.from_problem(problems.get(name), str(data)))
    run = ut_keras.load(str(tmp_path))
    [scores] = run.class_scores(["fine day"])
    assert {label for label, _ in scores} == {"good", "bad"}
    assert run.classify("fine day") == scores[0][0] and run.class_scores("fine day") == scores
    assert run.classify(["fine day", "x"])[0] == scores[0][0] == run.translate(["fine day"])[0]


def test_model_of_keras_translates_with_its_problem(loaded, problem, tmp_path):
    path = str(tmp_path / "model.keras")
    loaded.model.save(path)
    wanted = loaded.translate(TEXTS, beam_size=1)
    assert ut_keras.load(path, problem=problem).translate(TEXTS, beam_size=1) == wanted
    run = saved_run.SavedRun.of(keras.models.load_model(path), problem)
    assert run.translate(TEXTS, beam_size=1) == wanted
    assert isinstance(ut_keras.load(path), keras.Model)
    other = problems.get("algorithmic_reverse_decimal40")
    small, large = (p.feature_encoders(None)["inputs"].vocab_size for p in (problem, other))
    with pytest.raises(DataError, match=f"{small}.*Received: .*{large}.*decimal40"):
        ut_keras.load(path, problem=other)
    with pytest.raises(DataError, match="checkpoint_path .*Received: 'model.ckpt-1'"):
        ut_keras.load(path, "model.ckpt-1")
    with pytest.raises(DataError, match="^problem .*Received: data_dir='data'"):
        ut_keras.load(path, data_dir="data")
    with pytest.raises(DataError, match="^model must be .*Received: <Sequential"):
        saved_run.SavedRun.of(keras.Sequential([]), problem)


def test_load_makes_no_encoders_of_the_graph(run, loaded, monkeypatch):
    """Encoders in the graph take longer to make than the rest of a run.

    Only classes and stories need these encoders.
    """

    def make(encoder):
        raise AssertionError("Only classes and stories need encoders in the graph.")

    monkeypatch.setattr(text_model.text_encoder_op, "make", make)
    assert ut_keras.load(str(run)).translate(TEXTS) == loaded.translate(TEXTS)


def test_run_rejects_an_encoder_of_another_size(loaded):
    other = text_encoder.IntegerTextEncoder(loaded.encoders["targets"].vocab_size + 1)
    with pytest.raises(ValueError, match=f"Received: {other.vocab_size}"):
        saved_run.SavedRun(loaded.model, {**loaded.encoders, "targets": other})


@pytest.mark.parametrize("name", ["bytes", "classes"])
def test_new_model_of_a_run_is_used(name):
    """After an assignment to `run.model`, all methods use the new model."""
    model, encoders = export_models.build(name)
    other = keras.models.clone_model(model)
    export_models.randomize(other, seed=1)
    write = "class_scores" if name == "classes" else "generate"
    run, expected = (saved_run.SavedRun(each, encoders) for each in (model, other))
    assert getattr(run, write)(TEXTS) != getattr(expected, write)(TEXTS)
    run.model = other
    assert getattr(run, write)(TEXTS) == getattr(expected, write)(TEXTS)
    with pytest.raises(ValueError, match="vocabulary size"):
        run.encoders = {name: text_encoder.IntegerTextEncoder(9) for name in encoders}
    assert run.encoders is encoders


@pytest.mark.parametrize("name", ["encoder_symbols", "encoder_classes"])
def test_replaced_layer_of_a_run_is_used(name):
    model, encoders = export_models.build(name)
    copies = [keras.models.clone_model(model) for _ in range(3)]
    for seed, each in zip((1, 1, 2), copies, strict=True):
        export_models.randomize(each, seed)
    of_copy, right, other = copies
    texts = ["1 2 3", "9 0 7"]
    run, expected = (saved_run.SavedRun(each, encoders) for each in (of_copy, right))
    write = "class_scores" if name == "encoder_classes" else "generate"
    before = getattr(run, write)(texts)
    of_copy.encoder = right.encoder = other.encoder
    assert getattr(run, write)(texts) == getattr(expected, write)(texts) != before


def test_one_text_gives_one_result(loaded):
    assert loaded.translate(TEXTS[0]) == loaded.translate(TEXTS[:1])[0]
    assert loaded.generate(TEXTS[0], beam_size=2) == loaded.generate(TEXTS[:1], beam_size=2)[0]
    assert loaded.translate("") == loaded.translate([""])[0]


@pytest.mark.parametrize("name", ["classes", "encoder_classes", "adaptive"])
def test_texts_are_encoded_once(name, monkeypatch):
    """Python encodes the texts. The graph does not encode them again."""
    model, encoders = export_models.build(name)
    run = saved_run.SavedRun(model, encoders)
    texts = ["where is Mary ?", "", "so_ cool \\ 1 2 3"]
    wanted, ids = None, text_model.TextModel(model, encoders).ids(tf.constant(texts))
    if model.class_labels:
        wanted = text_model.TextModel(model, encoders).classify(tf.constant(texts))

    def encode(*args):
        raise AssertionError("The graph must not encode texts.")

    for op in run._text_model.encoder_ops.values():
        monkeypatch.setattr(op, "encode", encode)
    counted, encode_text = [], type(encoders["inputs"]).encode
    monkeypatch.setattr(
        type(encoders["inputs"]),
        "encode",
        lambda self, text: counted.append(text) or encode_text(self, text),
    )
    if model.class_labels:
        found = run.class_scores(texts)
        assert [[label for label, _ in row] for row in found] == [
            [label.decode() for label in row] for row in wanted.texts.numpy()
        ]
        scores = [[score for _, score in row] for row in found]
        np.testing.assert_allclose(scores, wanted.scores, rtol=1e-4, atol=1e-5)
        assert sorted(counted) == sorted(texts)
        counted.clear()
    run.generate(texts, decode_length=1)
    assert counted == texts
    counted.clear()
    run.observe(texts[0], attention=False)
    assert counted == texts[:1]
    label = "good" if model.class_labels else ""
    [(features, _)] = run.dataset([(text, label) for text in texts])
    np.testing.assert_array_equal(features["inputs"], ids)


def test_stories_reject_unknown_words():
    model, encoders = export_models.build("story")
    run = saved_run.SavedRun(model, encoders)
    for call in (run.classify, run.generate, lambda texts: run.observe(texts[0])):
        with pytest.raises(DataError, match="Received: .*Peter"):
            call(["where | Peter is"])
    with pytest.raises(DataError, match="Received: .*Peter"):
        run.dataset([("Peter", "Mary")])


def test_observe_shows_inputs_and_outputs(loaded):
    seen = loaded.observe(TEXTS[0])
    assert seen.maps["encoder"].queries == [*TEXTS[0].split(), "<EOS>"]
    assert seen.maps["memory"].keys == seen.maps["encoder"].queries
    assert seen.outputs == loaded.translate([TEXTS[0]], beam_size=1, decode_length=50)[0]
    without = loaded.observe(TEXTS[0], attention=False)
    assert not without.maps and without.outputs == seen.outputs
    assert not seen.steps  # a Transformer has no recurrence


def test_observe_shows_predictions_after_each_step():
    run = ut_keras.load("reverse40")
    seen = run.observe("1 2 3")
    found = seen.steps["decoder"]
    assert " ".join(tokens[0] for tokens in found.top_tokens[-1]).startswith(seen.outputs)
    again = run.observe("1 2 3", replace={1: found.states[0]})
    np.testing.assert_array_equal(again.steps["decoder"].logits, found.logits)


def test_load_accepts_names_of_included_runs(loaded, monkeypatch, run):
    with pytest.raises(DataError, match="Received: 'no_such'"):
        ut_keras.load("no_such")
    monkeypatch.setattr(pretrained, "_HERE", str(run.parent))
    assert run.name in pretrained.names()
    again = ut_keras.load(run.name)
    assert again.translate(TEXTS, beam_size=1) == loaded.translate(TEXTS, beam_size=1)


def test_load_without_features_requires_problem(tmp_path, problem):
    small_run.write(tmp_path)
    with pytest.raises(DataError, match=r"features.json.*problem=problems.get"):
        ut_keras.load(str(tmp_path))
    assert ut_keras.load(str(tmp_path), problem=problem).translate(TEXTS[:1], beam_size=1)


def test_saved_run_rejects_arguments(run, loaded, tmp_path, problem):
    with pytest.raises(DataError, match="must be the folder of a run.* which does not exist"):
        ut_keras.load(str(tmp_path / "none"))
    with pytest.raises(DataError, match="Received: '.*', which has none"):
        ut_keras.load(str(tmp_path), problem=problem)
    (tmp_path / "run.json").write_text('{"model": "transformer"}')
    with pytest.raises(DataError, match="must contain hparams.json"):
        ut_keras.load(str(tmp_path), problem=problem)
    with pytest.raises(DataError, match=r"Numbers must be in \[0, 2\)"):
        loaded.translate(["0 7"])
    for texts in (b"0", {"0": "1"}, {"0", "1"}, None, 0):
        with pytest.raises(ValueError, match="texts must be a list of str. Received: ."):
            loaded.translate(texts)
    for text in (b"0", None, ["0"], "0 \ud800", 0):
        with pytest.raises(ValueError, match="^A text must .* Received: "):
            loaded.translate(["0", text])
        with pytest.raises(ValueError, match="^A text must .* Received: "):
            loaded.observe(text)
    with pytest.raises(ValueError, match="^classify .*Received: "):
        loaded.classify(["0"])
    with pytest.raises(ValueError, match="beam_size must be at most"):
        loaded.translate(["0"], beam_size=99)
    with pytest.raises(ValueError, match="alpha must be at least 0. Received: -1"):
        loaded.translate(["0"], alpha=-1)
    with pytest.raises(ValueError, match="seed must be at least 0. Received: -1"):
        loaded.generate(["0"], seed=-1)
    with pytest.raises(ValueError, match="Received: forced_prefix"):
        loaded.generate(["0"], forced_prefix=[[2]])
    with pytest.raises(ValueError, match=r"model.ckpt-7"):
        ut_keras.load(str(run), checkpoint_path=str(run / "model.ckpt-7"))


def test_import_loads_no_tensorflow():
    program = "import sys, ut_keras; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_dataset_trains_run(loaded):
    pairs = [(text, text.upper()) for text in TEXTS * 2]
    data = loaded.dataset(pairs, batch_size=3, seed=1)
    features, targets = next(iter(loaded.dataset(pairs, batch_size=3)))
    encoder = loaded.encoders["inputs"]
    assert features["inputs"][0].numpy().tolist()[: len(encoder.encode(TEXTS[0])) + 1] == [
        *encoder.encode(TEXTS[0]),
        text_encoder.EOS,
    ]
    np.testing.assert_array_equal(features["targets"], targets)
    model = loaded.model
    before = [w.numpy() for w in model.trainable_weights]
    assert not model.compiled
    assert np.isfinite(model.evaluate(data, verbose=0, return_dict=True)["loss"])
    history = model.fit(data, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert any((w.numpy() != b).any() for w, b in zip(model.trainable_weights, before, strict=True))
    for weight, value in zip(model.trainable_weights, before, strict=True):
        weight.assign(value)  # other tests share the model
    with pytest.raises(ValueError, match="must be a str"):
        loaded.dataset([("a", 1)])
    for wrong in ([], ["ab"], [("a",)], [("a", "b", "c")]):
        with pytest.raises(ValueError, match="pairs must be a list of"):
            loaded.dataset(wrong)


def test_dataset_accepts_keys_of_dicts(loaded):
    """A former version took the keys "en" and "de" of each dict for the texts."""
    rows = [{"en": text, "de": "1"} for text in TEXTS]
    with pytest.raises(ValueError, match="Received: 'en', 'de'"):
        loaded.dataset(rows)
    [(wanted, _)] = loaded.dataset([(text, "1") for text in TEXTS])
    [(found, _)] = loaded.dataset(rows, source="en", target="de")
    renamed = [{"targets": "1", "inputs": text} for text in TEXTS]
    [(ours, _)] = loaded.dataset(renamed)
    for name in ("inputs", "targets"):
        np.testing.assert_array_equal(found[name], wanted[name])
        np.testing.assert_array_equal(ours[name], wanted[name])


def test_load_prints_that_it_loads_tensorflow(monkeypatch, capsys, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(DataError):
            ut_keras.load(tmp_path)
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert capsys.readouterr().err == f"Loading TensorFlow and {tmp_path}…\n"


_LOADS_NOTHING = """
import sys
import ut_keras
for path, options in {calls!r}:
    try:
        ut_keras.load(path, **options)
    except ValueError as error:
        print(error)
    print("tensorflow" in sys.modules)
"""


def test_load_rejects_wrong_arguments_without_tensorflow(tmp_path):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "run.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    expected = {
        "typo": "Received: 'typo', which does not exist.",
        "typo.keras": "Received: 'typo.keras', which does not exist.",
        "hf://typo": "Received: 'hf://typo'.",
        "empty": "Received: 'empty', which has none.",
        "runs": f"Received: 'runs', which contains the runs {os.path.join('runs', 'a')}.",
        "reverse40": "Received: 3.",
    }
    calls = [(path, {"data_dir": 3} if path == "reverse40" else {}) for path in expected]
    program = _LOADS_NOTHING.format(calls=calls)
    words = [sys.executable, "-c", program]
    root = os.path.dirname(os.path.dirname(ut_keras.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    run = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines[1::2] == ["False"] * len(expected) and not run.stderr
    for line, received in zip(lines[::2], expected.values(), strict=True):
        assert line.endswith(received) and "\n" not in line


@pytest.mark.slow
def test_included_run_is_ready_for_fit(caplog):
    model = (run := ut_keras.load("reverse40")).model
    model.fit(run.dataset([("1 2", "2 1")]), shuffle=False, epochs=2, verbose=0)
    # The learning rate is at step 2 of 200 warmup steps.
    assert float(model.optimizer.learning_rate) == pytest.approx(0.003 * 2 / 200)
    assert "learning_rate_schedule=constant*linear_warmup" in caplog.text


def test_dataset_trains_classifier():
    run = ut_keras.load("babi_joint")
    pairs = [("Mary got the milk there .|Where is Mary ?", "hallway"), ("John left .|Who ?", "no")]
    features, targets = next(iter(run.dataset(pairs)))
    assert features["inputs"].shape[0] == 2 and targets.shape == (2, 1)
    assert run.encoders["targets"].decode(targets[0].numpy().tolist()) == "hallway"
    run.model.compile("adam")
    assert run.model.evaluate(run.dataset(pairs), verbose=0, return_dict=True)["loss"] > 0


def test_load_prints_that_averages_are_ignored(tmp_path, capsys):
    run = shutil.copytree(pretrained.folder("reverse40"), tmp_path / "run")
    model = ut_keras.load(run).model
    assert "averages" not in capsys.readouterr().err
    optimizer = optimizers.get(model.hparams, train_steps=10_000)
    optimizer.build(model.trainable_variables)
    averages = {"some": tf.Variable(1.0)}
    checkpoint.Checkpoints(str(run), model, optimizer, moving_average=averages).save()
    ut_keras.load(run)
    assert "see best/" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["beam_size", "alpha", "decode_length", "seed", "per_example_length"]
)
def test_translate_rejects_options_of_another_type(loaded, name):
    for value in ("x", None, True, [1]):
        if (name, value) in (("seed", None), ("per_example_length", True)):
            continue
        with pytest.raises(ValueError, match=f"^{name} must be .*Received: ") as raised:
            loaded.translate(TEXTS, **{name: value})
        shown = repr(value) if isinstance(value, str) else str(value)
        assert f"Received: {shown}." in str(raised.value)
    assert loaded.translate(TEXTS[:1], beam_size=1, decode_length=1)


def test_dataset_rejects_arguments_out_of_range(loaded):
    pairs = [("0", "1"), ("1", "0"), ("1", "1")]
    for name, values in {
        "batch_size": (0, -1, 1.5, "x", None, True),
        "seed": (-1, 1.5, "x", True, 2**63),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} must be ") as raised:
                loaded.dataset(pairs, **{name: value})
            shown = repr(value) if isinstance(value, str) else str(value)
        assert f"Received: {shown}." in str(raised.value)
    assert len(list(loaded.dataset(pairs, batch_size=np.int64(2), seed=np.int64(1)))) == 2


@pytest.mark.parametrize("make", [list, np.array])
def test_dataset_with_sources_and_targets_names_pairs(make, loaded):
    """Keras users call methods as in fit(x, y)."""
    with pytest.raises(ValueError, match=r"list\(zip\(sources, .* Received: batch_size="):
        loaded.dataset(make(["0", "1"]), make(["1", "0"]))


def test_saved_run_rejects_paths_and_flags_of_another_type(loaded, tmp_path):
    for value in (None, True, 3, "", b"x", ["x"]):
        calls = {
            "directory": lambda value=value: loaded.save(value),
            "path": lambda value=value: ut_keras.load(value),
        }
        if value is not None:
            for name in ("checkpoint_path", "data_dir"):
                calls[name] = lambda name=name, value=value: ut_keras.load(
                    tmp_path, **{name: value}
                )
        for name, call in calls.items():
            with pytest.raises(DataError, match=f"^{name} must be a path") as raised:
                call()
            shown = repr(value) if isinstance(value, str) else str(value)
        assert f"Received: {shown}." in str(raised.value)
    for value in (True, "translate_ende"):
        with pytest.raises(DataError, match="problem must be a Problem") as raised:
            ut_keras.load(tmp_path, problem=value)
        shown = repr(value) if isinstance(value, str) else str(value)
        assert f"Received: {shown}." in str(raised.value)
    assert 'problems.get("translate_ende") of ut_keras' in str(raised.value)
    for value in (None, 1, "x"):
        with pytest.raises(ValueError, match="attention must be True or False"):
            loaded.observe("0", attention=value)
    with pytest.raises(ValueError, match="steps must be True, False or None. Received: 1"):
        loaded.observe("0", steps=1)
    with pytest.raises(ValueError, match="replace must be a dict or None. Received: 1"):
        loaded.observe("0", replace=1)
    for name, value in (("private", "x"), ("card", None)):
        with pytest.raises(UsageError, match=f"{name} must be .*Received: {value!r}"):
            loaded.push("hf://user/name", **{name: value})
    with pytest.raises(UsageError, match="Received: None"):
        loaded.push(None)


def test_prompt_with_pad_word_has_no_padding_id(tmp_path):
    """The test encodes prompts in three ways: as texts, in a graph, and from a file."""
    words = ["<pad>", "<EOS>", *"abcdefghijk"]
    (tmp_path / "vocab").write_text("\n".join(words) + "\n")
    encoder = text_encoder.TokenTextEncoder(str(tmp_path / "vocab"))
    run = saved_run.SavedRun(examples.shared("language_model"), {"targets": encoder})
    options = {"beam_size": 2, "decode_length": 3, "min_length": 3}
    [wanted] = run.generate(["a b"], **options)
    prompts = ["a b <pad>", "<pad> a b", "a <pad> b", "c", "<pad>"]
    written = run.generate(prompts, **options)
    for beams in written[:3]:
        assert [text for text, _ in beams] == [text for text, _ in wanted]
        assert [score for _, score in beams] == pytest.approx([score for _, score in wanted])
    search = options_lib.from_keywords(options, per_example_length=True)
    found = text_model.TextModel(run.model, run.encoders).generate(tf.constant(prompts), search)
    assert [[text.decode() for text in row] for row in found.texts.numpy()] == [
        [text for text, _ in beams] for beams in written
    ]
    rows = line_encoding.prompts("file", prompts, encoder)
    assert rows == [[2, 3], [2, 3], [2, 3], [4], []]


def test_load_checks_checkpoint_of_other_run(run, problem, tmp_path, caplog):
    adaptive = {"model": "universal_transformer", "recurrence_type": "act"}
    folders = {name: tmp_path / name for name in ("heads", "words", "first", "second", "bare")}
    for folder in folders.values():
        folder.mkdir()
    features = feature_record.from_problem(problem, None)
    small_run.write(folders["heads"], num_heads=4)
    small_run.write(folders["words"])
    encoder = text_encoder.TokenTextEncoder(tokens=["b", "a"])
    encoders = dict.fromkeys(features.encoders, encoder)
    feature_record.save(str(folders["words"]), features._replace(encoders=encoders))
    with pytest.raises(HParamError, match="heads/hparams.json: .*num_heads=2 instead of 4"):
        ut_keras.load(str(run), str(folders["heads"] / "model.ckpt-1"))
    with pytest.raises(DataError, match="encoder's class of 'inputs' must match .*words"):
        ut_keras.load(str(run), str(folders["words"] / "model.ckpt-1"))

    for name, epsilon in (("first", 0.1), ("second", 0.2)):
        small_run.write(folders[name], act_epsilon=epsilon, **adaptive)
    feature_record.save(str(folders["first"]), features)
    for file in folders["second"].glob("model.ckpt-1.*"):
        shutil.copy(file, folders["bare"])
    for name, notes in (("first", 0), ("bare", 0), ("second", 1)):
        caplog.clear()
        ut_keras.load(str(folders["first"]), str(folders[name] / "model.ckpt-1"))
        texts = [message for message in caplog.messages if "act_epsilon" in message]
        assert len(texts) == notes
    assert "act_epsilon is 0.1; the run was trained with 0.2" in texts[0]


_LINE_END = "with a line break, which counts as part of the text"


def test_line_breaks_at_the_ends_of_texts_are_logged_once(caplog):
    """Lines of a file, as `readlines` returns them, are not the texts of training."""
    run = ut_keras.load("multi30k_ende")
    caplog.clear()
    run.translate(["Two dogs.", "\nTwo"], beam_size=1, decode_length=1)
    assert _LINE_END not in caplog.text
    for _ in range(2):
        run.translate(["Two dogs.\n", "Two", "One\r\n"], beam_size=1, decode_length=1)
    (note,) = (message for message in caplog.messages if _LINE_END in message)
    assert note.startswith("2 texts end ")


@pytest.mark.parametrize("pair", [("Two dogs.\n", "Zwei Hunde."), ("Two dogs.", "Zwei Hunde.\n")])
def test_line_breaks_in_pairs_are_logged(pair, caplog):
    run = ut_keras.load("multi30k_ende")
    caplog.clear()
    run.dataset([pair])
    (note,) = (message for message in caplog.messages if _LINE_END in message)
    assert note.startswith("1 text ends ")


def test_line_break_that_encoders_ignore_is_not_logged(loaded, caplog):
    caplog.clear()
    assert loaded.translate(f"{TEXTS[0]}\n") == loaded.translate(TEXTS[0])
    assert _LINE_END not in caplog.text


def test_missing_methods_of_models_say_what_to_call(loaded):
    for name, use in (
        ("fit", r"run.model.fit\(run.dataset\(pairs\)\)"),
        ("predict", r"run.translate\(texts\)"),
        ("export", r"export.export_saved_model\(run.model, run.encoders"),
    ):
        with pytest.raises(AttributeError, match=f"has no '{name}'. Use .*{use}"):
            getattr(loaded, name)
    assert not hasattr(loaded, "nothing")
