"""Tests of the raw files of the translation problems, except for German and French."""

import gzip
import urllib.error

import pytest

from tests.problems import archives
from ut_keras import hparams, problems
from ut_keras.data import tfrecords
from ut_keras.data.writing import download
from ut_keras.errors import DataError

pytestmark = pytest.mark.usefixtures("no_checksums")


def _pair(stem, one, other, endings=None):
    """Return {file name: text} for both sides of a corpus, with three lines each."""
    names = endings or (f".{one}", f".{other}")
    texts = ("".join(f"{stem} {side} {i}\n" for i in range(3)) for side in (one, other))
    return {stem + end: text for end, text in zip(names, texts, strict=True)}


def _paracrawl(language):
    return _pair(f"paracrawl-release1.en-{language}.zipporah0-dedup-clean", "en", language)


def _czeng(name):
    rows = "".join(
        f"{number}\t0.9\tcesky {name} {i}\tenglish {name} {i}\n"
        for i, number in enumerate(["", "id"])
    )
    return gzip.compress((rows + "id\t0.9\tbez protejsku\n").encode())


def _segments(side, count):
    return "".join(f'<seg id="{i}">{side} {i} &amp; so</seg>\n' for i in range(count))


def _enid(stem):
    words = stem[-5:]
    subject = stem.removesuffix(f"-EN-ID-{words}")
    return {f"{subject}-{side}-{words}.txt": f"{subject} {side}\n" for side in ("EN", "ID")}


_PARACRAWL = "paracrawl-release1.en-{0}.zipporah0-dedup-clean.tgz"
# `PROBLEMS` maps a name to ({archive: its members}, (number of train examples, number of dev
# examples), a train pair, a dev pair).
PROBLEMS = {
    "translate_encs_wmt_characters": (
        {
            "data-plaintext-format.tar": {
                f"data.plaintext-format/{name}.gz": _czeng(name)
                for name in ("00train", "01train", "98dtest")
            },
            "training-parallel-nc-v13.tgz": _pair(
                "training-parallel-nc-v13/news-commentary-v13.cs-en", "en", "cs"
            ),
            "training-parallel-commoncrawl.tgz": _pair("commoncrawl.cs-en", "en", "cs"),
            "training-parallel-europarl-v7.tgz": _pair("training/europarl-v7.cs-en", "en", "cs"),
            "dev.tgz": _pair("dev/newstest2013", "en", "cs"),
        },
        (13, 3),
        ("english 01train 1", "cesky 01train 1"),
        ("dev/newstest2013 en 2", "dev/newstest2013 cs 2"),
    ),
    "translate_enes_wmt_characters": (
        {
            "training-parallel-commoncrawl.tgz": _pair("commoncrawl.es-en", "en", "es"),
            "training-parallel-europarl-v7.tgz": _pair("training/europarl-v7.es-en", "en", "es"),
            "training-parallel-un.tgz": _pair("un/undoc.2000.es-en", "en", "es"),
            _PARACRAWL.format("es"): _paracrawl("es"),
            "dev.tgz": _pair("dev/newstest2013", "en", "es"),
        },
        (12, 3),
        ("un/undoc.2000.es-en en 0", "un/undoc.2000.es-en es 0"),
        ("dev/newstest2013 en 2", "dev/newstest2013 es 2"),
    ),
    "translate_enet_wmt_characters": (
        {
            "training-parallel-ep-v8.tgz": _pair("training/europarl-v8.et-en", "en", "et"),
            _PARACRAWL.format("et"): _paracrawl("et"),
            "rapid2016.tgz": _pair("rapid2016.en-et", "en", "et"),
            "newsdev2018-enet.tar.gz": _pair(
                "newsdev2018-enet", "en", "et", ("-src.en", "-ref.et")
            ),
        },
        (9, 3),
        ("rapid2016.en-et en 1", "rapid2016.en-et et 1"),
        ("newsdev2018-enet en 0", "newsdev2018-enet et 0"),
    ),
    "translate_enid_iwslt32k": (
        {
            "IWSLT17.train.en-id.tgz": _pair("IWSLT17.train.en-id", "en", "id"),
            "IWSLT17.TED.tst2017plus.en-id.tgz": _pair("IWSLT17.TED.tst2017plus.en-id", "en", "id"),
            **{
                f"{stem}.tgz": _enid(stem)
                for stem in (
                    "PANL-BPPT-ECO-EN-ID-150Kw",
                    "PANL-BPPT-INT-EN-ID-150Kw",
                    "PANL-BPPT-SCI-EN-ID-100Kw",
                    "PANL-BPPT-SPO-EN-ID-100Kw",
                )
            },
        },
        (7, 3),
        ("PANL-BPPT-SCI EN", "PANL-BPPT-SCI ID"),
        ("IWSLT17.TED.tst2017plus.en-id en 0", "IWSLT17.TED.tst2017plus.en-id id 0"),
    ),
    "translate_enmk_setimes_characters": (
        {
            "setimes.en-mk.txt.tgz": _pair("setimes.en-mk", "en", "mk", (".en.txt", ".mk.txt")),
            "MTE-1984-dev.enmk.tgz": _pair("MTE1984-dev", "en", "mk"),
        },
        (3, 3),
        ("setimes.en-mk en 1", "setimes.en-mk mk 1"),
        ("MTE1984-dev en 1", "MTE1984-dev mk 1"),
    ),
    "translate_enro_wmt_characters": (
        {
            "ro-en.tgz": _pair("europarl-v7.ro-en", "en", "ro"),
            "en-ro.txt.zip": _pair("SETIMES.en-ro", "en", "ro"),
            "dev-romanian-updated.tgz": {
                "dev/newsdev2016-roen-ref.en.sgm": _segments("en", 2),
                "dev/newsdev2016-roen-src.ro.sgm": _segments("ro", 2),
            },
        },
        (6, 2),
        ("SETIMES.en-ro en 2", "SETIMES.en-ro ro 2"),
        ("en 1 & so", "ro 1 & so"),
    ),
    "translate_entn_rma": (
        {
            f"eng_tswane.{split}.tar.gz": _pair(f"entn_parallel.{split}", "en", "tn")
            for split in ("train", "dev")
        },
        (3, 3),
        ("entn_parallel.train en 0", "entn_parallel.train tn 0"),
        ("entn_parallel.dev en 0", "entn_parallel.dev tn 0"),
    ),
    "translate_envi_iwslt32k": (
        {
            "train-en-vi.tgz": _pair("train", "en", "vi"),
            "dev-2012-en-vi.tgz": _pair("tst2012", "en", "vi"),
        },
        (3, 3),
        ("train en 0", "train vi 0"),
        ("tst2012 en 0", "tst2012 vi 0"),
    ),
    "translate_enzh_wmt8k": (
        {
            "training-parallel-nc-v13.tgz": _pair(
                "training-parallel-nc-v13/news-commentary-v13.zh-en", "en", "zh"
            ),
            "dev.tgz": {
                "dev/newsdev2017-enzh-src.en.sgm": _segments("en", 2),
                "dev/newsdev2017-enzh-ref.zh.sgm": _segments("zh", 2),
            },
        },
        (3, 2),
        (
            "training-parallel-nc-v13/news-commentary-v13.zh-en en 0",
            "training-parallel-nc-v13/news-commentary-v13.zh-en zh 0",
        ),
        ("en 0 & so", "zh 0 & so"),
    ),
    **{
        f"style_transfer_{source}_to_{target}_characters": (
            {
                f"shakespeare.{split}.tgz": _pair(split, "original", "modern")
                for split in ("train", "dev")
            },
            (3, 3),
            (f"train {one} 0", f"train {other} 0"),
            (f"dev {one} 0", f"dev {other} 0"),
        )
        for source, target, one, other in (
            ("shakespeare", "modern", "original", "modern"),
            ("modern", "shakespeare", "modern", "original"),
        )
    },
}
VOCABULARIES = {
    "translate_entn_rma": ["vocab.entn.32768"],
    "translate_envi_iwslt32k": ["vocab.translate_envi_iwslt32k.32768.subwords"],
    "translate_enid_iwslt32k": ["vocab.translate_enid_iwslt32k.32768.subwords"],
    "translate_enzh_wmt8k": [
        f"vocab.translate_enzh_wmt8k.8192.subwords.{language}" for language in ("en", "zh")
    ],
}


def test_missing_files_are_listed_with_sizes(tmp_path, capsys, monkeypatch):
    """Without a network, a list of the missing files and their addresses precedes the error."""
    monkeypatch.setattr(download, "_RETRY_SECONDS", ())

    def no_network(*arguments, **options):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    stem = "training-parallel-nc-v13/news-commentary-v13.de-en"
    archives.write(tmp_path / "training-parallel-nc-v13.tgz", _pair(stem, "en", "de"))
    with pytest.raises(DataError) as raised:
        problems.get("translate_ende_wmt32k").generate_data(str(tmp_path / "data"), str(tmp_path))
    files = {
        "training-parallel-commoncrawl.tgz": "918.3 MB",
        "training-parallel-europarl-v7.tgz": "657.6 MB",
        "dev.tgz": "size unknown",
    }
    line, listed = str(raised.value), capsys.readouterr().out
    for name, size in files.items():
        assert f"{name} ({size})" in line and f"  {name} ({size}) http://" in listed
    assert "nc-v13" not in line + listed
    assert line.endswith("a download failed: no network.") and len(line) < 400


def test_bpe_problem_reads_tokens_and_vocabulary(tmp_path, capsys):
    texts = {"en": "the Repub@@ lican strategy\n", "de": "die Strateg@@ ie\n"}
    stems = ("train.tok.clean", "newstest2013.tok", "newstest2014.tok")
    members = {f"{stem}.bpe.32000.{side}": text for stem in stems for side, text in texts.items()}
    words = ["the", "Repub@@", "lican", "die", "Strateg@@", "ie"]
    members["vocab.bpe.32000"] = "".join(f"{word}\n" for word in words)
    archives.write(tmp_path / "wmt16_en_de.tar.gz", members)
    name = "translate_ende_wmt_bpe32k"
    problem, counts = archives.generate(name, tmp_path)
    assert counts == {"train": 1, "dev": 1, "test": 1}
    path = tmp_path / "data" / f"vocab.{name}.tokens"
    assert path.read_text().split("\n") == ["<pad>", "<EOS>", *words, "", "UNK", ""]
    unknown = "the Repub@@ lican UNK"
    assert archives.texts(problem, tmp_path, "dev") == [(unknown, texts["de"].strip())]
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    assert encoder.encode("the strategy") == [2, 9]
    scored = [], ["die Strateg@@ ie ist da"], ["die Str@@ ategie ist da"]
    for direction in ("", "_rev", "_copy"):
        score = problems.get(f"{name}{direction}").score_decoded(*scored)
        assert score["bleu"] == pytest.approx(100)


@pytest.mark.parametrize("is_noted", [False, True])
def test_bpe_vocabulary_without_reserved_tokens_is_noted(is_noted, tmp_path, capsys):
    """T2T 1.2 copies the vocabulary of the archive without reserved tokens."""
    name = "translate_ende_wmt_bpe32k"
    lines = ["the", "di@@", "e"]
    if not is_noted:
        lines = ["<pad>", "<EOS>", *lines, "UNK"]
    (tmp_path / f"vocab.{name}.tokens").write_text("".join(f"{line}\n" for line in lines))
    path = str(tmp_path / f"{name}-dev-00000-of-00001")
    tfrecords.write([{"inputs": [2, 1], "targets": [2, 1]}], [path])
    problem = problems.get(name)
    assert len(list(problem.dataset("dev", str(tmp_path), hparams.get("transformer_tiny")))) == 1
    output = capsys.readouterr().out
    assert (f"note: {name}: vocab.{name}.tokens must begin with the lines" in output) == is_noted


def test_missing_bpe_archive_is_named(tmp_path):
    with pytest.raises(DataError, match="wmt16_en_de.tar.gz.*https://drive.google.com/"):
        problems.get("translate_ende_wmt_bpe32k").generate_data(
            str(tmp_path / "data"), str(tmp_path)
        )
    assert not list((tmp_path / "data").glob("*"))


@pytest.mark.parametrize("name", PROBLEMS)
def test_archives_have_the_declared_files(name, tmp_path):
    members, sizes, train, dev = PROBLEMS[name]
    for archive, files in members.items():
        archives.write(tmp_path / archive, files)
    problem, counts = archives.generate(name, tmp_path)
    assert (counts["train"], counts["dev"]) == sizes
    assert train in archives.texts(problem, tmp_path, "train")
    assert dev in archives.texts(problem, tmp_path, "dev")
    found = sorted(path.name for path in (tmp_path / "data").glob("vocab.*"))
    assert found == VOCABULARIES.get(name, [])
    # raw_files names all possible downloads with their URLs, and nothing else.
    assert sorted(raw.name for raw in problem.raw_files) == sorted(members)
    assert all(raw.url.endswith((raw.name, f"{raw.name}?raw=true")) for raw in problem.raw_files)


def test_languages_of_one_archive_are_unpacked_apart(tmp_path):
    """Each language is unpacked into a folder of its own."""
    members = {**_pair("commoncrawl.de-en", "en", "de"), **_pair("commoncrawl.cs-en", "en", "cs")}
    archives.write(tmp_path / "training-parallel-commoncrawl.tgz", members)
    for name, position, language in (
        ("translate_ende_wmt32k", 1, "de"),
        ("translate_encs_wmt32k", 2, "cs"),
    ):
        files = problems.get(name).files["train"][position]
        pairs = list(files.pairs(str(tmp_path)))
        stem = f"commoncrawl.{language}-en"
        assert pairs == [(f"{stem} en {i}", f"{stem} {language} {i}") for i in range(3)]


def test_tables_give_a_vocabulary(tmp_path):
    members, *_ = PROBLEMS["translate_encs_wmt_characters"]
    for archive, files in members.items():
        archives.write(tmp_path / archive, files)
    texts = list(problems.get("translate_encs_wmt32k").texts_for_vocab(None, str(tmp_path)))
    assert {"english 00train 0", "cesky 01train 1", "commoncrawl.cs-en cs 0"} < set(texts)
