import gzip
import io
import json
import os
import pickle
import subprocess
import tarfile
import types

import pytest
import sacrebleu
import tensorflow as tf
from sacrebleu.tokenizers import tokenizer_ja_mecab

from tests.text import sacre_bleu_test
from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError, UsageError
from ut_keras.problems import parallel_text, reversal, translate_wmt
from ut_keras.text import text_encoder

pytestmark = pytest.mark.usefixtures("no_checksums")
HPARAMS = types.SimpleNamespace(batch_size=4096, max_length=256)
SGM = """\
<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="de">
<p>
<seg id="1">{} 1 &amp; one</seg>
<seg id="2">{} 2</seg>
</p>
</doc>
</srcset>
"""


def archive(tmp_path, name, **members):
    """Write an archive. In the names of members, "__" stands for "/"."""
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as tar:
        for member, content in members.items():
            content = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(member.replace("__", "/"))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def lines(what, count):
    return "".join(f"{what} {i}\n" for i in range(count))


def write_ende(tmp_path):
    archive(
        tmp_path,
        "training-parallel-nc-v13.tgz",
        **{
            "training-parallel-nc-v13__news-commentary-v13.de-en.en": lines("news", 30),
            "training-parallel-nc-v13__news-commentary-v13.de-en.de": lines("Nachricht", 30),
        },
    )
    archive(
        tmp_path,
        "training-parallel-commoncrawl.tgz",
        **{
            "commoncrawl.de-en.en": "web 0\n\n \xa0 padded web \n",
            "commoncrawl.de-en.de": "Netz 0\nohne Quelle\nNetz\x85mit Umbruch\n",
        },
    )
    archive(
        tmp_path,
        "training-parallel-europarl-v7.tgz",
        **{
            "training__europarl-v7.de-en.en": lines("Parliament", 5),
            "training__europarl-v7.de-en.de": lines("Parlament", 5),
        },
    )
    archive(
        tmp_path,
        "dev.tgz",
        **{
            "dev__newstest2013.en": lines("dev", 4),
            "dev__newstest2013.de": lines("Entwicklung", 4),
            "dev__newstest2014-deen-ref.en.sgm": SGM.format("test", "test"),
            "dev__newstest2014-deen-src.de.sgm": SGM.format("Prüfung", "Prüfung"),
        },
    )


def test_segments_of_sgm_files_may_have_any_layout(tmp_path):
    segments = ("one", "two and more", "three", "a < b &c;")
    (tmp_path / "a.sgm").write_text(
        '<refset><doc docid="1"><p><SEG id="1">one</SEG><seg\nid="2"> two\n and more</seg></p>\n'
        '<!-- <seg id="0">not this one</seg>\n-->\n'
        '<hl><seg id="3">three</seg></hl></doc><doc docid="2">\n'
        "<seg id='1'>\na &lt; b &c;\n</seg></doc></refset>"
    )
    (tmp_path / "b.sgm").write_text("".join(f"<seg>{i}</seg>\n" for i in range(4)))
    paths = [str(tmp_path / name) for name in ("a.sgm", "b.sgm")]
    pairs = list(parallel_text.read_pairs(paths))
    assert pairs == list(zip(segments, "0123", strict=True))
    (tmp_path / "b.sgm").write_text("<seg>0</seg>\n<seg>1\n<seg>2</seg>\n<seg>3</seg>\n")
    with pytest.raises(DataError, match=r"b\.sgm with 4 times <seg …> and 3 segments"):
        list(parallel_text.read_pairs(paths))


def test_carriage_returns_inside_lines_are_removed_with_a_note(tmp_path, capsys):
    """T2T reads lines with TensorFlow, which removes all carriage returns."""
    (tmp_path / "a").write_bytes(b"one\rtwo\r\nthree\n")
    (tmp_path / "b").write_bytes(b"eins\nd\rrei\n")
    paths = [str(tmp_path / name) for name in "ab"]
    assert list(parallel_text.read_pairs(paths)) == [("onetwo", "eins"), ("three", "drei")]
    assert list(parallel_text.lines_for_vocab(paths[0])) == ["onetwo", "three"]
    printed = capsys.readouterr().out
    assert [printed.count(f"lines of {path} have carriage returns") for path in paths] == [1, 1]
    assert tf.io.gfile.GFile(paths[0]).readlines() == ["onetwo\n", "three\n"]


def small_shards(problem):
    problem.num_train_shards = 2
    return problem


def generate(name, tmp_path):
    problem = small_shards(problems.get(name))
    return problem, problem.generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1)


def records(problem, tmp_path, split):
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [example for path in paths for example in tfrecords.read(path)]


def texts(problem, tmp_path, split):
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    return [
        tuple(encoder.decode(text_encoder.cut_at_eos(record[n])) for n in ("inputs", "targets"))
        for record in records(problem, tmp_path, split)
    ]


def test_archives_of_t2t_are_read(tmp_path):
    write_ende(tmp_path)
    problem, counts = generate("translate_ende_wmt8k", tmp_path)
    assert counts == {"train": 37, "dev": 4, "test": 2}
    record = "data/.ut_keras-records/datagen.translate_ende_wmt8k-train.json"
    with open(tmp_path / record) as file:
        assert json.load(file)["left_out"] == {"with an empty side": 1}
    assert "vocab.translate_ende_wmt8k.8192.subwords" in os.listdir(tmp_path / "data")
    assert texts(problem, tmp_path, "dev")[3] == ("dev 3", "Entwicklung 3")
    assert texts(problem, tmp_path, "test") == [
        ("test 1 & one", "Prüfung 1 & one"),
        ("test 2", "Prüfung 2"),
    ]
    train = texts(problem, tmp_path, "train")
    assert {("news 29", "Nachricht 29"), ("Parliament 0", "Parlament 0")} < set(train)
    # Only a line feed ends a line. White space around the line is removed.
    assert ("padded web", "Netz\x85mit Umbruch") in train


def test_files_unpacked_by_t2t_and_plain_test_files_are_read(tmp_path):
    write_ende(tmp_path)
    for name in ("training-parallel-nc-v13", "training-parallel-commoncrawl"):
        subprocess.run(["tar", "-xf", tmp_path / f"{name}.tgz", "-C", tmp_path], check=True)
        os.remove(tmp_path / f"{name}.tgz")
    os.remove(tmp_path / "dev.tgz")
    for language in ("en", "de"):
        (tmp_path / f"newstest2013.{language}").write_text(lines("dev", 3))
        (tmp_path / f"newstest2014.{language}").write_text(lines("test", 5))
    assert generate("translate_ende_wmt_characters", tmp_path)[1] == {
        "train": 37,
        "dev": 3,
        "test": 5,
    }


def test_both_sides_come_from_one_location(tmp_path):
    """The English side of newstest2014 for French must not be paired with the German side."""
    write_ende(tmp_path)
    (tmp_path / "newstest2014.en").write_text(lines("for French", 2))
    (tmp_path / "newstest2014.fr").write_text(lines("français", 2))
    (corpus,) = problems.get("translate_ende_wmt32k").files["test"]
    pairs = [("test 1 & one", "Prüfung 1 & one"), ("test 2", "Prüfung 2")]
    for _ in ("packed", "unpacked"):
        assert list(corpus.pairs(str(tmp_path))) == pairs
    (corpus,) = problems.get("translate_enfr_wmt32k").files["test"]
    assert next(corpus.pairs(str(tmp_path))) == ("for French 0", "français 0")


def test_missing_test_files_skip_the_test_split(tmp_path):
    write_ende(tmp_path)
    os.remove(tmp_path / "dev.tgz")
    for language in ("en", "de"):
        (tmp_path / f"newstest2013.{language}").write_text(lines("dev", 3))
    assert generate("translate_ende_wmt8k", tmp_path)[1] == {"train": 37, "dev": 3}


def test_archive_without_the_file_raises(tmp_path):
    write_ende(tmp_path)
    archive(tmp_path, "training-parallel-commoncrawl.tgz", other="x")
    with pytest.raises(DataError, match=r"commoncrawl.tgz must .*commoncrawl.de-en"):
        generate("translate_ende_wmt8k", tmp_path)
    assert not list((tmp_path / "data").glob("*"))


def test_sides_of_different_length_raise(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    (tmp_path / "b").write_text("eins\nzwei\n")
    paths = (str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(DataError, match="Received: .*b with 2 .*a with more"):
        list(parallel_text.read_pairs(paths))


def test_gzip_inside_the_archive_is_read(tmp_path):
    archive(
        tmp_path,
        "training-giga-fren.tar",
        **{
            "giga-fren.release2.fixed.en.gz": gzip.compress(b"web page\n"),
            "giga-fren.release2.fixed.fr.gz": gzip.compress("page d'été\n".encode()),
        },
    )
    giga = problems.get("translate_enfr_wmt32k").files["train"][3]
    paths = giga.find(str(tmp_path))
    assert list(parallel_text.read_pairs(paths)) == [("web page", "page d'été")]
    assert list(parallel_text.lines_for_vocab(paths[1])) == ["page d'été"]


def test_lines_for_vocab(tmp_path):
    """The file has 60 bytes, so the function skips int(60 / budget / 2) lines between two lines."""
    path = tmp_path / "text"
    path.write_text("".join(f"line {i:04}\n" for i in range(6)))
    assert list(parallel_text.lines_for_vocab(str(path), budget=60)) == [
        f"line {i:04}" for i in range(6)
    ]
    assert list(parallel_text.lines_for_vocab(str(path), budget=15)) == ["line 0002", "line 0005"]


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("translate_ende_wmt32k", "vocab.translate_ende_wmt32k.32768.subwords"),
        ("translate_ende_wmt32k_packed", "vocab.translate_ende_wmt32k.32768.subwords"),
        ("translate_ende_wmt8k_packed", "vocab.translate_ende_wmt8k.8192.subwords"),
        ("translate_enfr_wmt_small8k", "vocab.translate_enfr_wmt_small8k.8192.subwords"),
        ("translate_enfr_wmt_small32k", "vocab.translate_enfr_wmt_small32k.32768.subwords"),
        ("translate_enfr_wmt8k", "vocab.translate_enfr_wmt8k.8192.subwords"),
        ("translate_enfr_wmt32k_packed", "vocab.translate_enfr_wmt32k.32768.subwords"),
    ],
)
def test_vocabulary_names_match_t2t(name, vocabulary):
    assert problems.get(name).side_files() == (vocabulary,)


@pytest.mark.parametrize("small", ["", "_small"])
def test_characters_need_no_vocabulary(small):
    assert problems.get(f"translate_enfr_wmt{small}_characters").side_files() == ()


def test_packed_problem_can_be_reversed(tmp_path):
    write_ende(tmp_path)
    problem, counts = generate("translate_ende_wmt8k_packed", tmp_path)
    assert counts["dev"] == 1
    (record,) = records(problem, tmp_path, "dev")
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    first = [
        i for i, s in zip(record["targets"], record["targets_segmentation"], strict=True) if s == 1
    ]
    assert encoder.decode(first) == "Entwicklung 0<EOS>"
    assert max(record["inputs_segmentation"]) == 4
    assert record["inputs_position"][: len(encoder.encode("dev 0")) + 2][-2:] == [
        len(encoder.encode("dev 0")),
        0,
    ]
    # The targets of the reversed problem are English, and max_length=8 drops no packed example.
    short = types.SimpleNamespace(batch_size=4096, max_length=8)
    turned = problems.get("translate_ende_wmt8k_packed_rev")
    rows, texts = 0, ""
    for features, targets in turned.dataset("train", tmp_path / "data", short):
        for name, ids in (("targets", targets), ("inputs", features["inputs"])):
            for part in ("position", "segmentation"):
                assert features[f"{name}_{part}"].shape == ids.shape
        rows += targets.shape[0]
        texts += "".join(encoder.decode(row.tolist()) for row in targets.numpy())
    assert rows == counts["train"]
    assert "news 29<EOS>" in texts and "Nachricht" not in texts


def test_problem_can_be_reversed_and_copied(tmp_path):
    write_ende(tmp_path)
    base, _ = generate("translate_ende_wmt8k", tmp_path)
    folder = str(tmp_path / "data")
    encoder = base.feature_encoders(folder)["inputs"]

    def pairs(name):
        problem = pickle.loads(pickle.dumps(problems.get(name)))
        assert problem.name == name
        assert problem.generate_data(folder, str(tmp_path)) == {}
        for features, targets in problem.dataset("test", folder, HPARAMS):
            # The dataset reads the lengths from an index of this problem, not of its base problem.
            # Inputs and targets have the same length only if they are copies.
            assert (features["inputs"].shape == targets.shape) == ("_copy" in name)
            for ids in zip(features["inputs"].numpy(), targets.numpy(), strict=True):
                yield tuple(encoder.decode(text_encoder.cut_at_eos(i)) for i in ids)

    assert ("test 2", "Prüfung 2") in pairs("translate_ende_wmt8k")
    assert ("Prüfung 2", "test 2") in pairs("translate_ende_wmt8k_rev")
    assert ("test 2", "test 2") in pairs("translate_ende_wmt8k_copy")
    assert ("Prüfung 2", "Prüfung 2") in pairs("translate_ende_wmt8k_copy_rev")


def test_class_problem_cannot_be_reversed(tmp_path):
    (tmp_path / "train.tsv").write_text("good\tyes\nbad\tno\n" * 20)
    problem = problems.get("text2class_tsv_rev")
    problem.generate_data(str(tmp_path / "data"), str(tmp_path))
    with pytest.raises(DataError, match="text2class_tsv_rev.*class_label"):
        problem.feature_specs(str(tmp_path / "data"))


def test_unknown_base_of_reversed_problem_raises():
    with pytest.raises(ValueError, match="translate_ende_wmt32k"):
        problems.get("translate_ende_wmt3k_rev")
    with pytest.raises(ValueError, match="'translate_ende_wmt32k_rev'"):
        problems.get("translate_ende_wmt32k_rev_rev")


def test_bleu_is_cased_and_in_percent():
    problem = problems.get("translate_ende_multi30k")
    reference = ["Die Katze sitzt auf der Matte."]
    assert problem.score_decoded([""], reference, reference) == {"bleu": pytest.approx(100)}
    lower = problem.score_decoded([""], reference, ["die katze sitzt auf der matte."])["bleu"]
    assert lower == sacrebleu.corpus_bleu(["die katze sitzt auf der matte."], [reference]).score
    assert lower < 50


@pytest.mark.parametrize(
    "name, tokenizer",
    [
        ("translate_enzh_wmt8k", "zh"),
        ("translate_enzh_wmt8k_copy_rev", "zh"),
        ("translate_enzh_wmt8k_rev", "13a"),
        ("translate_enzh_wmt8k_copy", "13a"),
        ("translate_ende_wmt32k", "13a"),
        ("style_transfer_modern_to_shakespeare", "13a"),
    ],
)
def test_bleu_uses_tokenizer_of_target_language(name, tokenizer):
    references, hypotheses = sacre_bleu_test.REFERENCES, sacre_bleu_test.HYPOTHESES
    scores = problems.get(name).score_decoded(hypotheses, references, hypotheses)
    expected = sacre_bleu_test.CHINESE if tokenizer == "zh" else 0
    assert scores == {"bleu": pytest.approx(expected, abs=5e-3)}


def test_check_scores_names_missing_tokenizer(monkeypatch):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    monkeypatch.setattr(translate_wmt._WmtProblem, "target", "ja", raising=False)
    problem = translate_wmt._WmtProblem()
    with pytest.raises(UsageError, match=r"sacrebleu\[ja\]"):
        problem.check_scores()
    reversal.Derived(problem, reverse=True, copy=False).check_scores()  # its targets are English


def test_reversed_problem_has_no_scores_of_other_problems():
    """`wsj_parsing` scores trees, but the targets of `wsj_parsing_rev` are sentences."""
    assert (
        problems.get("wsj_parsing_rev").score_decoded(["a"], ["It works ."], ["It works ."]) == {}
    )
    assert problems.get("wsj_parsing").feature_languages() == {}


def _write_builder(folder, **options):
    """Write a small builder with the name and features of the WMT builder."""
    import tensorflow_datasets as tfds

    class WmtT2tTranslate(tfds.core.GeneratorBasedBuilder):
        """A small WMT builder."""

        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="de-en")]

        def _info(self):
            return self.dataset_info_from_configs(
                features=tfds.features.Translation(languages=("de", "en"))
            )

        def _split_generators(self, dl_manager):
            return {split: self._examples(split) for split in ("train", "validation", "test")}

        def _examples(self, split):
            for i in range(20 if split == "train" else 3):
                yield i, {"en": f"{split} sentence {i}", "de": f"{split} Satz {i}"}

        _generate_examples = None

    tfds.core.registered._DATASET_REGISTRY.pop("wmt_t2t_translate", None)
    builder = WmtT2tTranslate(data_dir=str(folder), **options)
    builder.download_and_prepare()
    return str(builder.data_path)


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_tensorflow_datasets_are_read(tmp_path, file_format):
    _write_builder(tmp_path, file_format=file_format)
    problem, counts = generate("translate_ende_wmt8k", tmp_path)
    assert counts == {"train": 20, "dev": 3, "test": 3}
    assert sorted(texts(problem, tmp_path, "dev"))[0] == (
        "validation sentence 0",
        "validation Satz 0",
    )


def test_tensorflow_datasets_spreads_vocabulary_over_array_record(tmp_path):
    folder = _write_builder(tmp_path, file_format="array_record")
    pairs = list(parallel_text.read_builder(folder, "train", "en", "de"))
    assert len(pairs) == 20
    some = parallel_text.read_builder(folder, "train", "en", "de", max_examples=7)
    assert list(some) == pairs[::3]


def test_tensorflow_datasets_names_unreadable_format(tmp_path, monkeypatch):
    """A format is unreadable if, for example, the package array_record is not installed."""
    folder = _write_builder(tmp_path, file_format="array_record")

    def fail(builder, split):
        raise ImportError("No module named 'array_record'")

    monkeypatch.setattr("tensorflow_datasets.core.DatasetBuilder.as_data_source", fail)
    with pytest.raises(DataError, match=f"{folder} must .* Received: array_record: ") as error:
        list(parallel_text.read_builder(folder, "train", "en", "de"))
    assert "\n" not in str(error.value)


def test_find_builder_returns_newest_version(tmp_path):
    for name in ("1.9.0", "1.10.0", "0.99.0", "incomplete.AB12CD_2.0.0"):
        (tmp_path / "wmt" / "de-en" / name).mkdir(parents=True)
        (tmp_path / "wmt" / "de-en" / name / "dataset_info.json").write_text("{}")
    (tmp_path / "wmt" / "de-en" / "1.11.0").mkdir()
    found = parallel_text.find_builder(str(tmp_path), "wmt/de-en")
    assert found == str(tmp_path / "wmt" / "de-en" / "1.10.0")


def test_real_newstest(shared_dir, tmp_path):
    write_ende(tmp_path)
    os.remove(tmp_path / "dev.tgz")
    folder = os.path.join(shared_dir, "data", "wmt", "en-de")
    for name in os.listdir(folder):
        os.symlink(os.path.join(folder, name), tmp_path / name)
    problem, counts = generate("translate_ende_wmt_characters", tmp_path)
    assert counts == {"train": 37, "dev": 3000, "test": 3003}
    assert texts(problem, tmp_path, "test")[0] == (
        "Gutach: Increased safety for pedestrians",
        "Gutach: Noch mehr Sicherheit für Fußgänger",
    )


def test_real_bleu(shared_dir):
    """SCORES.tsv has the scores of `t2t-bleu` and sacreBLEU for the published output."""
    folder = os.path.join(shared_dir, "data")
    with open(
        os.path.join(folder, "bleu_reference", "detok", "sennrich2016.newstest2014.detok.de"),
        encoding="utf-8",
    ) as file:
        hypotheses = file.read().split("\n")[:3003]
    with open(os.path.join(folder, "wmt", "en-de", "newstest2014.de"), encoding="utf-8") as file:
        references = file.read().split("\n")[:3003]
    problem = problems.get("translate_ende_wmt32k")
    score = problem.score_decoded(references, references, hypotheses)["bleu"]
    assert score == pytest.approx(25.3579, abs=1e-4)


def test_real_multi30k(shared_dir):
    problem = problems.get("translate_ende_multi30k")
    folder = os.path.join(shared_dir, "data", "multi30k", "raw")
    counts = {}
    for split in problem.splits:
        samples = list(problem.generate_samples(split, None, folder, seed=0))
        counts[split] = len(samples)
    assert counts == {"train": 29_000, "dev": 1_014, "test": 1_000}
    assert samples[0] == {
        "inputs": "A man in an orange hat starring at something.",
        "targets": "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    }
    assert [raw.name for raw in problem.raw_files][:2] == ["train.en.gz", "train.de.gz"]
