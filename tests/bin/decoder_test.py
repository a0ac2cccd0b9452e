"""The command as a user meets it, on a small model that writes much."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

import problems
from tests.bin import decoder_problems, small_run
from ut_keras.bin import datagen, decoder, import_t2t
from ut_keras.decoding import side_by_side
from ut_keras.inference import free_decoding, padding, predictor, text_model
from ut_keras.models import transformer
from ut_keras.text.text_encoder import cut_at_eos

PROBLEM = small_run.PROBLEM
ENCODER = problems.get(PROBLEM).feature_encoders()["inputs"]


class Run:
    """A run: its model, its folder and its data."""

    def __init__(self, folder, data_dir, **options):
        self.model = small_run.write(folder, data_dir, **options)
        self.folder = folder
        self.data_dir = data_dir

    def argv(self, *more):
        return [f"--output_dir={self.folder}", f"--data_dir={self.data_dir}", *more]

    def decode(self, *more):
        assert decoder.main(self.argv(*more)) == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    argv = [f"--problem={PROBLEM}", f"--data_dir={data_dir}", f"--tmp_dir={data_dir}"]
    assert datagen.main(argv) == 0
    return Run(tmp_path_factory.mktemp("run"), data_dir, steps=(1, 3))


@pytest.fixture
def source(tmp_path):
    """A file of 40 lines of 1 to 9 symbols, four of them empty, and its lines."""
    return _source(tmp_path / "source", shortest=1)


@pytest.fixture
def equal_source(tmp_path):
    """The same with 9 symbols a line."""
    return _source(tmp_path / "source", shortest=9)


def _source(path, shortest):
    rng = np.random.default_rng(7)
    lengths = rng.integers(shortest, 10, size=40)
    lines = [" ".join(map(str, rng.integers(2, size=length))) for length in lengths]
    lines[3] = lines[4] = lines[20] = lines[39] = ""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path, lines


def _search(model, line, **options):
    """[(text, score)] of one line alone."""
    ids = ENCODER.encode(line) + [1]
    found = model.generate({"inputs": [ids]}, **options)
    texts = [ENCODER.decode(cut_at_eos(row)) for row in found.ids[0].numpy()]
    return list(zip(texts, found.scores[0].numpy().tolist(), strict=True))


def _lines(path):
    content = path.read_text()
    assert content.endswith("\n")
    return content.split("\n")[:-1]


@pytest.mark.parametrize("together", [",batch_size=1", ""])
def test_every_line_gets_its_own_result(run, source, tmp_path, capsys, together):
    path, lines = source
    how = "beam_size=2,extra_length=4" + together
    target = tmp_path / "out"
    run.decode(
        f"--decode_from_file={path}", f"--decode_to_file={target}", f"--decode_hparams={how}"
    )
    options = {"beam_size": 2, "alpha": 0.6, "decode_length": 4}
    expected = [_search(run.model, line, **options)[0][0] if line else "" for line in lines]
    assert _lines(target) == expected
    assert len(set(expected)) > 10  # not all the same
    shown = capsys.readouterr().out
    assert "lines 4, 5, 21, 40: empty" in shown
    assert "decoded 40/40 lines  " in shown and "lines/s" in shown and "00:00 left" in shown
    assert f"Weights: {run.folder}/model.ckpt-3" in shown
    assert sorted(os.listdir(tmp_path)) == ["out", "source"]


def test_parts_of_a_batch_write_the_same(run, source, tmp_path, monkeypatch, capsys):
    path, _ = source
    asked = []

    def fixed_already(threads):
        asked.append(threads)
        raise RuntimeError("cannot be modified after initialization")

    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", fixed_already)
    for parts in (1, 3):
        monkeypatch.setattr(side_by_side, "number_of_parts", lambda rows, n=parts: min(n, rows))
        target = tmp_path / f"out{parts}"
        run.decode(f"--decode_from_file={path}", f"--decode_to_file={target}")
    assert _lines(tmp_path / "out3") == _lines(tmp_path / "out1")
    assert asked == [1, 1]
    assert "its threads stay as they are" in capsys.readouterr().out


def test_default_name_and_token_batches(run, equal_source):
    path, lines = equal_source
    run.decode(f"--decode_from_file={path}", "--decode_hparams=beam_size=3,extra_length=4,alpha=1")
    target = f"{path}.transformer.transformer_tiny.{PROBLEM}.beam3.alpha1.0.decodes"
    options = {"beam_size": 3, "alpha": 1.0, "decode_length": 4}
    expected = [_search(run.model, line, **options)[0][0] if line else "" for line in lines]
    assert _lines(path.parent / os.path.basename(target)) == expected
    assert len(set(expected)) == 3


def test_num_steps_needs_recurrence(run, source, tmp_path, capsys):
    where = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(run.argv(*where, "--decode_hparams=num_steps=4")) == 2
    assert "The decode hparam num_steps needs a model with recurrence" in capsys.readouterr().err


def test_beams_and_scores(run, equal_source, tmp_path):
    path, lines = equal_source
    how = "beam_size=3,extra_length=3,return_beams=True"
    argv = [f"--decode_from_file={path}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, f"--decode_hparams={how}")
    beams = [_search(run.model, line, beam_size=3, decode_length=3) for line in lines if line]
    found = [line for line in _lines(tmp_path / "out") if line]
    assert found == ["\t".join(text for text, _ in row) for row in beams]
    run.decode(*argv, f"--decode_hparams={how},write_beam_scores=True")
    for line, row in zip(filter(None, _lines(tmp_path / "out")), beams, strict=True):
        columns = line.split("\t")
        assert columns[::2] == [text for text, _ in row]
        expected = [score for _, score in row]
        np.testing.assert_allclose([float(x) for x in columns[1::2]], expected, atol=0.006)
        assert all(len(x.partition(".")[2]) == 2 for x in columns[1::2])


def test_few_traces_for_many_shapes(run, source, tmp_path, monkeypatch):
    shapes, traced = set(), []
    original = transformer.Transformer.encode
    call = predictor.Predictor.__call__

    def encode(self, *args, **kwargs):
        traced.append(1)
        return original(self, *args, **kwargs)

    def predict(self, rows, *args, **kwargs):
        shapes.add((len(rows), max(map(len, rows))))
        return call(self, rows, *args, **kwargs)

    monkeypatch.setattr(transformer.Transformer, "encode", encode)
    monkeypatch.setattr(predictor.Predictor, "__call__", predict)
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, "--decode_hparams=batch_size=3,extra_length=2")
    assert len(shapes) >= 8
    assert 1 <= len(traced) <= 3


@pytest.fixture
def interruption(monkeypatch):
    """Sends a signal in the batch of a number; counts the batches."""
    counts = {"batches": 0, "at": None}
    call = predictor.Predictor.__call__

    def predict(self, *args, **kwargs):
        counts["batches"] += 1
        if counts["batches"] == counts["at"]:
            signal.raise_signal(signal.SIGTERM)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(predictor.Predictor, "__call__", predict)
    return counts


def test_one_command_at_a_time_writes_a_target(run, source, tmp_path, capsys):
    target = tmp_path / "out"
    with decoder._lock(str(target)):
        argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={target}")
        assert decoder.main(argv) == 2
    assert "--decode_to_file must be written by one command at a time" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["source"]


def test_goes_on_where_it_was_interrupted(run, source, tmp_path, capsys, interruption):
    how = "--decode_hparams=beam_size=2,extra_length=3,batch_size=4"
    argv = run.argv(f"--decode_from_file={source[0]}", how)
    assert decoder.main([*argv, f"--decode_to_file={tmp_path / 'whole'}"]) == 0
    all_batches, interruption["batches"] = interruption["batches"], 0
    assert all_batches == 9  # 36 lines that are not empty

    argv.append(f"--decode_to_file={tmp_path / 'out'}")
    interruption["at"] = 3
    capsys.readouterr()
    assert decoder.main(argv) == 143
    assert "16 of 40 lines are decoded, kept in" in capsys.readouterr().out
    assert not (tmp_path / "out").exists() and (tmp_path / "out.partial").exists()

    interruption.update(batches=0, at=None)
    assert decoder.main(argv) == 0
    assert "Going on with what" in capsys.readouterr().out
    assert interruption["batches"] == all_batches - 3
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "out.partial").exists()


def test_too_little_memory_names_the_line(run, source, tmp_path, capsys, monkeypatch):
    def predict(self, rows, *args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(predictor.Predictor, "__call__", predict)
    lengths = [len(line.split()) + 1 if line else 0 for line in source[1]]
    argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}")
    line = small_run.error(capsys, decoder.main, argv)
    assert f"lines of up to {max(lengths)} symbols" in line
    assert f"number {lengths.index(max(lengths)) + 1}," in line and "out of memory" in line


@pytest.mark.parametrize("change", ["settings", "checkpoint", "input", "weights"])
def test_does_not_go_on_with_something_else(run, source, tmp_path, capsys, interruption, change):
    how = "--decode_hparams=beam_size=2,extra_length=3,batch_size=4"
    argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}")
    interruption["at"] = 3
    assert decoder.main([*argv, how]) == 143
    if change == "settings":
        how = how.replace("extra_length=3", "extra_length=2")
    elif change == "checkpoint":
        argv.append(f"--checkpoint_path={run.folder}/model.ckpt-1")
    elif change == "input":
        source[0].write_text(source[0].read_text().replace("0", "1", 1))
    else:  # under the same name, of the same time
        folder = tmp_path / "other"
        shutil.copytree(run.folder, folder)
        for ending in ("index", "data-00000-of-00001"):
            shutil.copy(folder / f"model.ckpt-1.{ending}", folder / f"model.ckpt-3.{ending}")
            times = os.stat(run.folder / f"model.ckpt-3.{ending}")
            os.utime(
                folder / f"model.ckpt-3.{ending}", ns=(times.st_atime_ns, times.st_mtime_ns)
            )
        argv[0] = f"--output_dir={folder}"
    interruption.update(batches=0, at=None)
    assert decoder.main([*argv, how]) == 0
    assert interruption["batches"] >= 9
    assert "starting anew" in capsys.readouterr().out


def test_changed_lines_of_a_partial_file_are_decoded_again(
    run, source, tmp_path, capsys, interruption
):
    how = "--decode_hparams=beam_size=2,extra_length=3,batch_size=4"
    argv = run.argv(f"--decode_from_file={source[0]}", how)
    assert decoder.main([*argv, f"--decode_to_file={tmp_path / 'whole'}"]) == 0
    argv.append(f"--decode_to_file={tmp_path / 'out'}")
    interruption.update(batches=0, at=4)
    assert decoder.main(argv) == 143
    lines = (tmp_path / "out.partial").read_text().splitlines(keepends=True)
    assert len(lines) == 5
    record = json.loads(lines[2])
    record["results"][0][0] += " 1"
    lines[2] = json.dumps(record) + "\n"
    (tmp_path / "out.partial").write_text("".join(lines))
    interruption.update(batches=0, at=None)
    assert decoder.main(argv) == 0
    assert "its last 3 batches are decoded again" in capsys.readouterr().out
    assert interruption["batches"] == 8
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_checkpoint_path_alone(run, source, tmp_path):
    """Hparams, model and problem are those beside it."""
    how = "--decode_hparams=beam_size=2,extra_length=4"
    run.decode(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'two'}", how)
    argv = [f"--data_dir={run.data_dir}", f"--decode_from_file={source[0]}", how]
    for step, same in ((3, True), (1, False)):
        target = tmp_path / f"of_{step}"
        path = f"--checkpoint_path={run.folder}/model.ckpt-{step}"
        assert decoder.main([*argv, path, f"--decode_to_file={target}", "--keep_timestamp"]) == 0
        assert (target.read_text() == (tmp_path / "two").read_text()) == same
        written = os.path.getmtime(f"{run.folder}/model.ckpt-{step}.index")
        assert os.path.getmtime(target) == written


def test_split_to_files(run, tmp_path):
    how = (
        "beam_size=2,extra_length=2,num_samples=12,return_beams=True,write_beam_scores=True,"
        "batch_size=1"
    )
    run.decode(f"--decode_to_file={tmp_path / 'dev'}", f"--decode_hparams={how}")
    base = tmp_path / f"dev.transformer.transformer_tiny.{PROBLEM}.beam2.alpha0.6"
    inputs, targets, outputs = (
        _lines(base.parent / f"{base.name}.{kind}") for kind in ("inputs", "targets", "decodes")
    )
    assert len(os.listdir(tmp_path)) == 3
    assert len(inputs) == len(targets) == len(outputs) == 24
    assert inputs[::2] == inputs[1::2]
    for source, target in zip(inputs, targets, strict=True):
        assert target.split() == source.split()[::-1]
    for number in (0, 5, 11):
        expected = _search(run.model, inputs[2 * number], beam_size=2, decode_length=2)
        found = [line.split("\t")[0] for line in outputs[2 * number : 2 * number + 2]]
        assert found == [text for text, _ in expected]
    from ut_keras.data import tfrecords

    [file] = tfrecords.find(str(run.data_dir), PROBLEM, "dev")
    first = next(iter(tfrecords.read(file)))
    assert ENCODER.decode(first["inputs"]) == inputs[0]  # in the order of the file


def test_split_of_packed_rows_is_taken_apart(tmp_path):
    name = "decoder_test_digits_packed"
    argv = [f"--problem={name}", f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]
    assert datagen.main(argv) == 0
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", tmp_path, problem=name)
    run.decode(
        f"--decode_to_file={tmp_path / 'dev'}", "--decode_hparams=beam_size=1,extra_length=1"
    )
    base = f"dev.transformer.transformer_tiny.{name}.beam1.alpha0.6"
    inputs, targets = (_lines(tmp_path / f"{base}.{kind}") for kind in ("inputs", "targets"))
    assert sorted(inputs) == [" ".join(str(number)) for number in range(10, 30)]
    assert targets == [line[::-1] for line in inputs]
    # The problem that is not packed has the same model.
    (tmp_path / "source").write_text("1 2\n")
    run.decode(
        "--problem=decoder_test_digits",
        f"--decode_from_file={tmp_path / 'source'}",
        "--decode_hparams=beam_size=1,extra_length=1",
    )


def test_split_is_shown(run, capsys):
    run.decode("--decode_hparams=beam_size=1,extra_length=1,num_samples=3")
    shown = capsys.readouterr().out
    assert shown.count("INPUT: ") == shown.count("OUTPUT: ") == shown.count("TARGET: ") == 3
    assert f"{PROBLEM} dev: accuracy_per_sequence=" in shown and "num_samples=3" in shown


def test_bleu_of_what_was_decoded(run, source, tmp_path, capsys):
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    how = "--decode_hparams=beam_size=1,extra_length=3"
    run.decode(*argv, how)
    os.rename(tmp_path / "out", tmp_path / "reference")
    capsys.readouterr()
    run.decode(*argv, how, f"--decode_reference={tmp_path / 'reference'}")
    shown = capsys.readouterr().out
    assert "sacreBLEU: BLEU_cased = 100.00  " in shown and "T2T: BLEU_cased = 100.00" in shown


def test_scores_of_given_targets(run, tmp_path):
    """T2T's: the mean of -log p over the ids, EOS included."""
    pairs = [("0 1 1", "1 1 0"), ("1", "0 0 0 0 1"), ("0 0 1 0 1", ""), ("1 1", "1 1")] * 3
    (tmp_path / "pairs").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    run.decode(f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'scores'}")
    for line, (a, b) in zip(_lines(tmp_path / "scores"), pairs, strict=True):
        features = {"inputs": [ENCODER.encode(a) + [1]], "targets": [ENCODER.encode(b) + [1]]}
        logits = run.model({k: np.array(v) for k, v in features.items()}).numpy()[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = -np.mean([row[i] for row, i in zip(log_probs, features["targets"][0])])  # noqa: B905
        assert float(line) == pytest.approx(expected, rel=1e-4)
        assert len(line.partition(".")[2]) == 6


# What t2t-decoder --score_file wrote of tests/testdata/t2t/ckpt/transformer.
T2T_SCORES = (
    ("1 1 0 1 1 1 1 1 0 1", "1 0 1 1 1 1 1 0 1", 1.049522),
    ("0 1 0 0 1 1", "1 1 0 0 1", 1.143023),
    ("1 1 1 0 0 0 1 1 1 1 1", "1 1", 1.540543),
    ("0 1 1 1 1 1", "1", 1.859651),
    ("0", "0", 1.767063),
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The command line for a run that T2T trained."""
    folder = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")
    output_dir = tmp_path_factory.mktemp("imported")
    data = f"--data_dir={folder}/data_dir"
    argv = [f"--t2t_output_dir={folder}/ckpt/transformer", data, f"--output_dir={output_dir}"]
    assert import_t2t.main(argv) == 0
    return [f"--output_dir={output_dir}", data]


def test_scores_are_those_of_t2t(imported, tmp_path):
    (tmp_path / "pairs").write_text("".join(f"{a}\t{b}\n" for a, b, _ in T2T_SCORES))
    argv = [f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'scores'}"]
    assert decoder.main([*imported, *argv]) == 0
    scores = [float(line) for line in _lines(tmp_path / "scores")]
    assert scores == pytest.approx([score for _, _, score in T2T_SCORES], abs=2e-6)


def test_beams_are_written_as_by_t2t(imported, tmp_path):
    """But for a beam that nothing fills, where T2T writes as many <pad> as there is room for."""
    (tmp_path / "source").write_text("0 1 0 0 1 1 1\n1 0 1\n")
    how = "beam_size=4,alpha=0.6,extra_length=5,return_beams=True,write_beam_scores=True"
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main([*imported, *argv, f"--decode_hparams={how},batch_size=1"]) == 0
    assert _lines(tmp_path / "out") == ["\t-2.85\t0\t-3.22\t1\t-3.39\t\t-10000000.00"] * 2


def test_options_of_the_search(run, source, tmp_path):
    found = []
    for more in ("sampling_temp=2,seed=3", "sampling_temp=2,seed=3", "sampling_temp=2,seed=4"):
        found.append(_options(run, source, tmp_path, more))
    assert found[0] == found[1] != found[2]
    lengths = [
        len(line.split()) for line in _options(run, source, tmp_path, "min_length=6") if line
    ]
    assert len(lengths) == 36 and min(lengths) == 6  # the shortest has room for no more
    # No symbol twice, of the two that there are (and the rarely written <pad>).
    lines = _options(run, source, tmp_path, "no_repeat_ngram_size=1")
    assert all(len(set(line.split())) == len(line.split()) for line in lines)


def _options(run, source, tmp_path, more):
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, f"--decode_hparams=beam_size=1,extra_length=4,batch_size=8,{more}")
    return _lines(tmp_path / "out")


def test_typed_lines(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "typed").write_text(
        "0 1 1\n\nabc\ndl=1\n1 1 0\nns=2\ndl=x\nit=image\n1\nq\n0 0 0\n"
    )
    with open(tmp_path / "typed") as file:
        monkeypatch.setattr("sys.stdin", file)
        run.decode("--decode_interactive", "--decode_hparams=beam_size=1,extra_length=5")
    lines = capsys.readouterr().out.splitlines()
    lines = lines[lines.index("  q                   (quit)") + 1 :]
    assert "input, line 3 cannot be encoded" in lines[1] and "'abc'" in lines[1]
    assert "dl must be a number" in lines[3] and "type must be text" in lines[4]
    expected = [
        _search(run.model, line, decode_length=extra)[0][0]
        for line, extra in (("0 1 1", 5), ("1 1 0", 1), ("1", 1), ("1", 1))
    ]
    assert [lines[0], *lines[2:3], *lines[5:]] == expected


def test_typed_lines_with_beams(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "typed").write_text("0 1 1\n")
    with open(tmp_path / "typed") as file:
        monkeypatch.setattr("sys.stdin", file)
        run.decode("--decode_interactive", "--decode_hparams=beam_size=2,return_beams=True")
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert lines[0] == "BEAM 0:" and lines[2] == "BEAM 1:"
    text, score = _search(run.model, "0 1 1", beam_size=2, decode_length=100)[0]
    assert lines[1].startswith(f'"{text}"\tScore:{score:.2f}')


_GLOBAL = {
    "steps": (6,),
    "recurrence_type": "act",
    "act_type": "global",
    "act_halting_bias_init": -1.0,
}


@pytest.mark.parametrize(
    ("model", "parts", "options"),
    [
        ("transformer", 1, {}),
        ("transformer", 3, {}),
        ("universal_transformer_encoder", 3, {}),
        ("universal_transformer", 1, _GLOBAL),
        ("universal_transformer", 1, {**_GLOBAL, "act_mask_padding": True}),
    ],
)
def test_classes(tmp_path, model, parts, options, monkeypatch):
    """Each line gets one label: alone, among others, in an export and in evaluation."""
    (tmp_path / "run").mkdir()
    options = {"problem": "decoder_test_classes", "model": model, "steps": (3,), **options}
    run = Run(tmp_path / "run", tmp_path, **options)
    rng = np.random.default_rng(5)
    words = decoder_problems.WORDS
    lines = [" ".join(rng.choice(words, size=rng.integers(1, 7))) for _ in range(10)]
    (tmp_path / "source").write_text("\n".join(lines))
    monkeypatch.setattr(side_by_side, "number_of_parts", lambda rows: min(parts, rows))
    run.decode(f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}")
    encoders = problems.get("decoder_test_classes").feature_encoders(None)
    expected, scores = [], []
    for line in lines:
        ids = np.array([encoders["inputs"].encode(line) + [1]])
        logits = run.model({"inputs": ids, "targets": np.zeros([1, 1], int)})
        scores.append(np.max(tf.nn.log_softmax(logits)))
        expected.append(encoders["targets"].decode([int(np.argmax(logits))]))
    assert _lines(tmp_path / "out") == expected
    assert len(set(expected)) > 1
    found = text_model.TextModel(run.model, encoders).generate(tf.constant(lines))
    assert [text.decode() for text in found.texts[:, 0].numpy()] == expected
    np.testing.assert_allclose(found.scores[:, 0], scores, rtol=1e-4, atol=1e-5)
    inputs = padding.padded([encoders["inputs"].encode(line) + [1] for line in lines])
    targets = np.array([encoders["targets"].encode(label) for label in expected])
    batch = tf.data.Dataset.from_tensors(({"inputs": inputs, "targets": targets}, targets))
    evaluate = free_decoding.FreeDecoder(run.model, free_decoding.DecodeSettings())
    assert evaluate(batch)[0]["decode/accuracy_per_sequence"] == 1


def test_language_model_goes_on_with_the_lines(tmp_path):
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", tmp_path, problem="decoder_test_language_model", steps=(3,))
    lines = ["ab", "abc", "", "x", "abd", "It is."]
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines))
    how = "--decode_hparams=beam_size=2,extra_length=6"
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, how)
    encoder = problems.get("decoder_test_language_model").feature_encoders(None)["targets"]
    expected = []
    for line in lines:
        ids = encoder.encode("It is. " if line == "It is." else line)  # as in T2T
        if line:
            found = run.model.generate({"inputs": [ids]}, beam_size=2, decode_length=6)
            text = encoder.decode(cut_at_eos(found.ids[0, 0].numpy()))
            expected.append(text.replace("\n", " ").replace("\r", " "))
        else:
            expected.append("")
    assert _lines(tmp_path / "out") == expected
    assert all(expected[:2]) and expected[0] != expected[1]


def test_lines_of_any_length(run, tmp_path, capsys):
    long = " ".join("01" * 150)  # training stopped at 256
    (tmp_path / "source").write_text(f"0 1\n{long}\n1\n")
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, "--decode_hparams=beam_size=1,extra_length=2")
    assert "line 2: longer than the 256 symbols" in capsys.readouterr().out
    [found] = _search(run.model, long, decode_length=2)
    assert _lines(tmp_path / "out")[1] == found[0]
    run.decode(*argv, "--decode_hparams=beam_size=1,extra_length=2,max_input_size=6")
    assert "line 2: cut to max_input_size=6 symbols" in capsys.readouterr().out
    [found] = _search(run.model, long[:9], decode_length=2)
    assert _lines(tmp_path / "out")[1] == found[0]


def test_empty_file_and_file_of_empty_lines(run, tmp_path):
    for content in ("", "\n\n"):
        (tmp_path / "source").write_text(content)
        argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
        run.decode(*argv)
        assert (tmp_path / "out").read_text() == content


def test_records_of_the_run_are_enough(run):
    """The fixture's run.json names problem and model; nothing else in these tests does."""
    record = json.loads((run.folder / "run.json").read_text())
    assert (record["problem"], record["model"]) == (PROBLEM, "transformer")
