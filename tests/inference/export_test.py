"""An export gives the outputs of the model in a process that has only TensorFlow."""

import functools
import gc
import json
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.inference import export_models
from ut_keras import export
from ut_keras.decoding import beam_search, options
from ut_keras.inference import text_model
from ut_keras.ops import maximum

BROKEN = [b"\xff\xfe so", b"a\xe2\x82", b"\xed\xa0\x80 1", b""]
_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
answers = {}
for name, directory, batches in json.load(open(sys.argv[1])):
    serve = tf.saved_model.load(directory).signatures["serving_default"]
    answers[name] = []
    for batch in batches:
        texts = tf.constant([bytes.fromhex(text) for text in batch], tf.string)
        found = serve(inputs=texts)
        assert found["outputs"].dtype == tf.string and found["scores"].dtype == tf.float32
        outputs = [[text.decode() for text in row] for row in found["outputs"].numpy().tolist()]
        answers[name].append([outputs, found["scores"].numpy().tolist()])
imported = [name for name in sys.modules if name.startswith(("ut_keras", "problems", "hparams"))]
assert not imported, imported
json.dump(answers, open(sys.argv[2], "w"))
"""


def _some_slow(names):
    """Return the names as test parameters; most are slow, because an export takes seconds."""
    quick = ("adaptive", "classes", "story")
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Return a function that exports the model of a given name once and returns the folder."""
    folder = tmp_path_factory.mktemp("exports")

    def get(name, **changed):
        directory = folder / "-".join([name, *map(str, sorted(changed.items()))])
        if not directory.exists():
            model, encoders = export_models.build(name)
            export.export_saved_model(
                model, encoders, str(directory), **{**export_models.SEARCH, **changed}
            )
        return str(directory)

    return get


@pytest.fixture(scope="module")
def loaded(exports):
    """Return a function that loads the export of a given name once, because this takes a second."""
    return functools.cache(lambda name, **changed: _load(exports(name, **changed)))


def _load(directory):
    return tf.saved_model.load(directory)


def _batches(name):
    """Return batches: several texts, one text, an empty text, no text, and invalid texts."""
    texts = export_models.TEXTS
    if name == "story":
        texts = [
            "Mary is in the garden | where | is the | Mary ? in in in | where is Mary ?",
            *texts,
        ]
    batches = [[text.encode() for text in texts], [texts[0].encode()], [b""], [], BROKEN]
    if export_models.build(name)[0].decoder is not None:
        return batches
    return [[*batches[0], *BROKEN], []]


def _assert_same(answer, wanted):
    outputs, scores = answer
    assert outputs == [written for written, _ in wanted]
    if wanted:
        np.testing.assert_allclose(scores, [values for _, values in wanted], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_export_works_without_ut_keras(exports, tmp_path):
    jobs = [
        (name, exports(name), [[text.hex() for text in batch] for batch in _batches(name)])
        for name in export_models.MODELS
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    (tmp_path / "client.py").write_text(_CLIENT)
    # The client runs outside of the checkout, so it cannot import ut_keras by accident.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-P", "client.py", "jobs.json", "answers.json"],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    answers = json.loads((tmp_path / "answers.json").read_text())
    written = set()
    for name in export_models.MODELS:
        for batch, answer in zip(_batches(name), answers[name], strict=True):
            texts = [text.decode("utf-8", "replace") for text in batch]
            _assert_same(answer, export_models.expected(name, texts) if texts else [])
            written |= {text for row in answer[0] for text in row}
    assert len(written) > 40  # the outputs differ


@pytest.mark.slow
def test_export_signatures(loaded):
    def names(name):
        return set(loaded(name).signatures)

    assert names("adaptive") == {"serving_default", "ids", "encode", "score"}
    assert names("prompts") == {"serving_default", "ids", "encode", "score"}
    assert names("classes") == {"serving_default", "ids", "encode", "classify"}
    assert names("encoder_symbols") == {"serving_default", "ids", "encode"}
    assert names("neural_gpu") == {"serving_default", "ids", "encode", "score"}


@pytest.mark.slow
def test_export_is_freed(exports):
    signature = _load(exports("adaptive")).signatures["serving_default"]
    signature(inputs=tf.constant([b"where"]))
    graph = weakref.ref(signature.graph)
    del signature
    gc.collect()
    assert graph() is None


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"return_steps": True, "exit_threshold": 0.5}, marks=pytest.mark.slow)],
)
def test_ids_signature_matches_generate(loaded, options):
    model, encoders = export_models.build("adaptive")
    ids = export_models.padded(export_models.rows(encoders, export_models.TEXTS))
    found = loaded("adaptive", **options).signatures["ids"](inputs=tf.constant(ids))
    wanted = model.generate(
        {"inputs": ids}, per_example_length=True, **export_models.SEARCH, **options
    )
    np.testing.assert_array_equal(found["outputs"], wanted.ids)
    np.testing.assert_allclose(found["scores"], wanted.scores, rtol=1e-5, atol=1e-5)
    if options:
        np.testing.assert_array_equal(found["source_steps"], wanted.source_steps)
        np.testing.assert_array_equal(found["target_steps"], wanted.target_steps)


@pytest.mark.parametrize("name", _some_slow(["adaptive", "bytes"]))
def test_export_outputs_do_not_depend_on_the_batch(loaded, name):
    texts = [export_models.TEXTS[0], "a", "where is Mary ? in the garden ?"]
    serve = loaded(name).signatures["serving_default"]
    together = serve(inputs=tf.constant(texts))
    for row, text in enumerate(texts):
        alone = serve(inputs=tf.constant([text]))
        np.testing.assert_array_equal(alone["outputs"][0], together["outputs"][row])
        np.testing.assert_allclose(alone["scores"][0], together["scores"][row], rtol=1e-5)


@pytest.mark.parametrize("name", _some_slow(["adaptive", "prompts", "classes", "story"]))
def test_ids_signature_rejects_unknown_ids(loaded, name):
    signature = loaded(name).signatures["ids"]
    shape = [2] + [
        size or 3 for size in signature.structured_input_signature[1]["inputs"].shape[1:]
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"inputs must be ids in \[0, "):
        signature(inputs=tf.fill(shape, 999))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"inputs must be ids in \[0, "):
        signature(inputs=tf.fill(shape, -1))


@pytest.mark.parametrize("shape", [(2, 3, 5), (4, 2, 5), (2, 5, 5), (2, 4, 3)])
def test_ids_signature_rejects_stories_of_another_size(loaded, shape):
    """A loaded SavedModel does not compare the shapes of inputs with its signature."""
    signature = loaded("story").signatures["ids"]
    received = " ".join(map(str, shape))
    expected = rf"inputs must be of shape \[batch, 4, 5\]. Received:\] \[{received}\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        signature(inputs=tf.ones(shape, tf.int32))


@pytest.mark.parametrize("name", _some_slow(["adaptive", "prompts", "story", "bytes", "classes"]))
def test_signatures_reject_inputs_of_another_rank(loaded, name):
    """Without a check, a subword tokenizer reads texts [2, 1] like two texts."""
    for signature in loaded(name).signatures.values():
        specs = signature.structured_input_signature[1]
        ranks = {key: spec.shape.rank for key, spec in specs.items()}
        for change in (-1, 1, 2):
            inputs = {
                key: tf.fill([1] * (ranks[key] + change), "a" if spec.dtype == tf.string else 2)
                for key, spec in specs.items()
            }
            received = " ".join("1" * (max(ranks.values()) + change))
            wanted = rf"(inputs|targets) must be of shape \[batch.*\]. Received:\] \[{received}\]"
            with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
                signature(**inputs)


_UP_TO_FOUR = {"max_input_length": 4}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("prompts", _UP_TO_FOUR),
        pytest.param("encoder_symbols", {}, marks=pytest.mark.slow),
    ],
)
def test_ids_signature_rejects_padding_that_matters(loaded, name, changed):
    signature = loaded(name, **changed).signatures["ids"]
    rows = np.full([2, 4], 2, np.int32)
    assert len(signature(inputs=tf.constant(rows))["scores"]) == 2
    rows[1, 3:] = 0
    wanted = "inputs must be of one length, .*: "
    with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
        signature(inputs=tf.constant(rows))


def test_signatures_reject_long_or_unequal_inputs(loaded):
    ids = loaded("prompts", **_UP_TO_FOUR).signatures["ids"]
    assert len(ids(inputs=tf.fill([2, 4], 2))["scores"]) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs must be at most 4 ids"):
        ids(inputs=tf.fill([2, 5], 2))
    score = loaded("adaptive").signatures["score"]
    for sources in (["a"], ["a", "b", "a"]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="inputs and targets must "):
            score(inputs=tf.constant(sources), targets=tf.constant(["a", "b"]))


def test_encode_signature(loaded):
    model, encoders = export_models.build("adaptive")
    encode = loaded("adaptive").signatures["encode"]
    found = encode(inputs=tf.constant(export_models.TEXTS))
    ids = export_models.padded(export_models.rows(encoders, export_models.TEXTS))
    np.testing.assert_array_equal(found["ids"], ids)
    states = model.encode({"inputs": ids}).stack.output
    np.testing.assert_allclose(found["states"], states, rtol=1e-4, atol=1e-5)
    assert encode(inputs=tf.constant([], tf.string))["ids"].shape[0] == 0


def test_encode_gives_a_text_the_states_that_it_has_alone():
    """The convolutions of a Neural GPU read the states of padding."""
    model, encoders = export_models.build("neural_gpu")
    texts = text_model.TextModel(model, encoders)
    assert model.why_source_padding_matters
    both = texts.encode(tf.constant(["9 0 7 3 1", "4", ""]))
    for row, text in enumerate(["9 0 7 3 1", "4", ""]):
        alone = texts.encode(tf.constant([text])).states[0]
        np.testing.assert_allclose(both.states[row, : len(alone)], alone, atol=1e-5)
        assert not np.any(both.states[row, len(alone) :])
    assert texts.encode(tf.constant([], tf.string)).states.shape[0] == 0


@pytest.mark.slow
def test_encode_signature_of_language_model_returns_ids(loaded):
    encode = loaded("prompts").signatures["encode"]
    assert set(encode(inputs=tf.constant(["", "so"]))) == {"ids"}


@pytest.mark.parametrize("name", _some_slow(["adaptive", "prompts", "lstm", "neural_gpu"]))
def test_score_signature(loaded, name):
    model, encoders = export_models.build(name)
    score = loaded(name).signatures["score"]
    texts = ["1 2 3", "", "so cool", "4"]
    rows = {"targets": _targets(encoders, texts)}
    arguments = {"targets": tf.constant(texts)}
    if "inputs" in encoders:
        arguments["inputs"] = tf.constant(export_models.TEXTS[:4])
        rows["inputs"] = export_models.rows(encoders, export_models.TEXTS[:4])
    wanted = [
        model.score({feature: np.int32([ids[row]]) for feature, ids in rows.items()})[0]
        for row in range(4)
    ]
    found = score(**arguments)["scores"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    nothing = {feature: value[:0] for feature, value in arguments.items()}
    assert score(**nothing)["scores"].shape == [0]


def _targets(encoders, texts):
    return export_models.rows({**encoders, "inputs": encoders["targets"]}, texts)


@pytest.mark.parametrize("name", _some_slow(["classes", "encoder_classes"]))
def test_classify_signature(loaded, name):
    found = loaded(name).signatures["classify"](inputs=tf.constant(export_models.TEXTS))
    assert found["classes"].shape == found["scores"].shape == [len(export_models.TEXTS), 3]
    for classes in found["classes"].numpy().tolist():
        assert sorted(classes) == [b"bad", b"good", b"neither"]
    scores = found["scores"].numpy()
    assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, rtol=1e-5)
    wanted = export_models.expected(name, export_models.TEXTS)
    best = [[[text.decode()] for text in found["classes"][:, 0].numpy()], scores[:, :1]]
    _assert_same(best, wanted)


@pytest.mark.slow
def test_max_input_length_truncates_sources(exports):
    texts = ["so very long a text", "short"]
    serve = _load(exports("bytes", max_input_length=6)).signatures["serving_default"]
    found = serve(inputs=tf.constant(texts))
    answer = [[t.decode() for t in row] for row in found["outputs"].numpy()], found["scores"]
    _assert_same(answer, export_models.expected("bytes", ["so ve", "short"]))
    encode = _load(exports("prompts", max_input_length=2)).signatures["encode"]
    _, encoders = export_models.build("prompts")
    wanted = encoders["targets"].encode(texts[0])[-2:]  # the end of the prompt
    assert encode(inputs=tf.constant(texts))["ids"][0].numpy().tolist() == wanted


@pytest.mark.slow
def test_export_search_options(exports):
    changed = {"min_length": 4, "no_repeat_ngram_size": 1, "eos_penalty": 0.5}
    serve = _load(exports("adaptive", **changed)).signatures["serving_default"]
    found = serve(inputs=tf.constant(export_models.TEXTS))
    answer = [[t.decode() for t in row] for row in found["outputs"].numpy()], found["scores"]
    _assert_same(answer, export_models.expected("adaptive", export_models.TEXTS, **changed))


@pytest.mark.slow
def test_export_samples_differ_between_calls(exports):
    drawn = {"beam_size": 1, "temperature": 1.0}
    texts = tf.constant(["so cool"] * 8)
    serve = _load(exports("prompts", **drawn)).signatures["serving_default"]
    answers = [serve(inputs=texts)["outputs"].numpy().tolist() for _ in range(2)]
    assert answers[0] != answers[1]
    serve = _load(exports("prompts", **drawn, seed=3)).signatures["serving_default"]
    answers = [serve(inputs=texts)["outputs"].numpy().tolist() for _ in range(2)]
    assert answers[0] == answers[1]


def test_export_samples_differ_between_processes_of_a_seeded_program(monkeypatch):
    """`keras.utils.set_random_seed` before an export does not fix the samples of the export."""
    model, encoders = export_models.build("prompts")
    texts = text_model.TextModel(model, encoders)
    monkeypatch.setattr(texts.predictor, "batch", lambda ids, options: options.seed)
    search = options.Options(temperature=1.0)
    tf.random.set_seed(3)
    trace = tf.function(functools.partial(texts.generate_ids, tf.constant([[1]]), search))
    graph = trace.get_concrete_function().graph
    (sampling,) = (op for op in graph.get_operations() if op.type == "RandomUniformInt")
    assert [sampling.get_attr(name) for name in ("seed", "seed2")] == [0, 0]  # 0: no seed


def _operations(directory):
    with open(os.path.join(directory, "saved_model.pb"), "rb") as file:
        content = saved_model_pb2.SavedModel.FromString(file.read())
    graph = content.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return {node.op for node in nodes}


@pytest.mark.parametrize("name", _some_slow(sorted(export_models.MODELS)))
def test_export_runs_no_python_and_reads_no_files(exports, name):
    operations = _operations(exports(name))
    assert {"StatefulPartitionedCall", "RestoreV2"} < operations
    # The export may contain operations that save and restore its own folder.
    forbidden = ("Py", "ReadFile", "WriteFile", "MatchingFiles", "Dataset", "Reader", "Print")
    assert not {op for op in operations if any(word in op for word in forbidden)}


@pytest.mark.parametrize("name", _some_slow(["adaptive", "prompts", "lstm"]))
def test_export_serves_concurrent_requests(loaded, name):
    """A search writes its caches in place, so each request must have its own caches."""
    serve = loaded(name).signatures["serving_default"]
    batches = [[text] for text in export_models.TEXTS] + [export_models.TEXTS, ["1 2", "so", ""]]
    alone = [_answer(serve, batch) for batch in batches]
    wrong, start = [], threading.Barrier(4)

    def ask(offset):
        start.wait()
        for number in range(12):
            place = (number * (2 * offset + 1) + offset) % len(batches)
            if _answer(serve, batches[place]) != alone[place]:
                wrong.append(place)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _answer(serve, texts):
    found = serve(inputs=tf.constant(texts))
    return found["outputs"].numpy().tolist(), np.round(found["scores"].numpy(), 4).tolist()


@pytest.mark.slow
def test_export_leaves_model_unchanged(exports):
    """An export leaves neither traces nor weights in the model."""
    model, encoders = export_models.build("bytes")
    ids = export_models.padded(export_models.rows(encoders, ["so cool", "4"]))
    before = model.generate({"inputs": ids}, **export_models.SEARCH)
    exports("bytes", alpha=0.5)
    after = model.generate({"inputs": ids}, **export_models.SEARCH)
    np.testing.assert_array_equal(before.ids, after.ids)
    np.testing.assert_array_equal(before.scores, after.scores)


def test_failed_export_leaves_no_folder(tmp_path, monkeypatch):
    model, encoders = export_models.build("encoder_symbols")

    def fail(module, directory, signatures):
        os.mkdir(os.path.join(directory, "variables"))
        raise OSError(28, "No space left on device", directory)

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        export.export_saved_model(model, encoders, str(tmp_path / "1"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "reason"), [("prompts", "language model"), ("story", "search")])
def test_export_rejects_xla_without_a_search_that_xla_can_compile(name, reason, tmp_path):
    model, encoders = export_models.build(name)
    with pytest.raises(ValueError, match=f"jit_compile must be False.*{reason}.*Received: True"):
        export.export_saved_model(model, encoders, str(tmp_path / "1"), jit_compile=True)
    assert not os.listdir(tmp_path)


def test_export_rejects_a_search_that_xla_fails_to_compile(tmp_path, monkeypatch):
    model, encoders = export_models.build("rotary")
    argmax = maximum.argmax

    def with_python(x):
        return tf.ensure_shape(tf.py_function(argmax, [x], tf.int32), x.shape[:-1])

    monkeypatch.setattr(beam_search.maximum, "argmax", with_python)
    with pytest.raises(ValueError, match="XLA cannot compile .*: .*EagerPyFunc"):
        export.export_saved_model(
            model, encoders, str(tmp_path / "1"), beam_size=1, decode_length=1, jit_compile=True
        )
    assert not os.listdir(tmp_path)


_COMPILED_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
for texts in json.load(open(sys.argv[2])):
    found = serve(inputs=tf.constant(texts, tf.string))
    outputs = [[text.hex() for text in row] for row in found["outputs"].numpy().tolist()]
    print(json.dumps([outputs, found["scores"].numpy().tolist()]))
"""


@pytest.mark.slow  # XLA takes seconds to compile a search
@pytest.mark.parametrize("name", ["adaptive", "lstm"])
def test_compiled_export_gives_the_same_outputs(exports, loaded, name, tmp_path):
    """XLA compiles the search in a process without ut_keras, for few shapes."""
    texts = export_models.TEXTS
    batches = [[], texts[:3], texts[:4], texts[2:3], [" ".join(["where"] * 12)]]
    (tmp_path / "batches.json").write_text(json.dumps(batches))
    found = subprocess.run(
        [sys.executable, "-c", _COMPILED_CLIENT, exports(name, jit_compile=True), "batches.json"],
        env={**os.environ, "XLA_FLAGS": f"--xla_dump_to={tmp_path}/dump", "PYTHONPATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    serve = loaded(name).signatures["serving_default"]
    for batch, line in zip(batches, found.stdout.splitlines(), strict=True):
        wanted = serve(inputs=tf.constant(batch, tf.string))
        outputs, scores = json.loads(line)
        assert outputs == [[text.hex() for text in row] for row in wanted["outputs"].numpy()]
        np.testing.assert_allclose(
            np.reshape(scores, wanted["scores"].shape), wanted["scores"], rtol=1e-4
        )
    programs = {path.name.partition(".")[0] for path in (tmp_path / "dump").iterdir()}
    if name == "adaptive":
        # The number of texts and the length are padded to powers of two. Three and four texts
        # therefore share a program. An empty batch and one short text share another program. The
        # LSTM's sources are not padded.
        assert len(programs) == 3, programs
    assert programs


def test_export_rejects_arguments(tmp_path):
    model, encoders = export_models.build("bytes")

    def assert_rejected(error, match, *, encoders=encoders, directory="1", **options):
        with pytest.raises(error, match=match):
            export.export_saved_model(model, encoders, str(tmp_path / directory), **options)
        assert not [name for name in os.listdir(tmp_path) if name != "full"]

    assert_rejected(
        ValueError, "beam_size must be at most the size of the vocabulary, 258", beam_size=259
    )
    assert_rejected(ValueError, "max_input_length must be .*at least 0", max_input_length=-1)
    assert_rejected(ValueError, "forced_prefix", forced_prefix=[[1]])
    assert_rejected(ValueError, "decode_length must be at least 0", decode_length=-1)
    assert_rejected(
        ValueError, "The encoder of inputs must .*, 258. Received: no encoder", encoders={}
    )
    other = {**encoders, "targets": export_models.NUMBERS}
    assert_rejected(ValueError, "The encoder of targets must .*, 258. Received: 12", encoders=other)
    story, story_encoders = export_models.build("story")
    with pytest.raises(ValueError, match="max_input_length must be 0 for stories.*Received: 5"):
        export.export_saved_model(story, story_encoders, str(tmp_path / "1"), max_input_length=5)
    (tmp_path / "full").mkdir()
    assert_rejected(FileExistsError, "full", directory="full")


@pytest.mark.slow
def test_export_in_bfloat16_equals_the_model(tmp_path):
    model, (encoders, _) = export_models.bfloat16_model(), export_models.features("numbers")
    export_models.randomize(model, 3)
    export.export_saved_model(model, encoders, str(tmp_path / "m"), **export_models.SEARCH)
    texts = ["3 4 5", "7 2"]
    found = _load(str(tmp_path / "m")).signatures["serving_default"](inputs=tf.constant(texts))
    ids = export_models.padded(export_models.rows(encoders, texts))
    expected = model.generate({"inputs": ids}, **export_models.SEARCH)
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-3)
    outputs = [[encoders["targets"].decode(row) for row in beams] for beams in expected.ids.numpy()]
    assert [[text.decode() for text in row] for row in found["outputs"].numpy()] == outputs
