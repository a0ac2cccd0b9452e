"""T2T's translation problems, from WMT and other corpora.

This module lists the raw files of each problem.

    translate_ende_wmt32k      inputs   "Gutach: Increased safety for pedestrians"
                               targets  "Gutach: Noch mehr Sicherheit für Fußgänger"
    translate_envi_iwslt32k    inputs   "Rachel Pike : The science behind a climate headline"
                               targets  "Khoa học đằng sau một tiêu đề về khí hậu"
    style_transfer_…_modern    inputs   "I have a mind to strike thee ere thou speak'st."
                               targets  "I have half a mind to hit you before you speak again."

The end of a problem's name determines its variant:

- `32k` and `8k` use one vocabulary for both languages, with about 32,768 or 8,192 subwords, such as
  `vocab.translate_ende_wmt32k.32768.subwords`. English-Chinese has a vocabulary for each language.
- `characters` uses bytes instead of subwords.
- `_packed` packs several examples into each record of up to 256 subwords.
- `_rev` translates in the other direction with the same files.

The test splits are an addition of ut_keras.
"""

import itertools
import os
import re
from typing import Any

from ut_keras.data.writing import download
from ut_keras.problems import packed, parallel_text, problem, translate
from ut_keras.problems.problem import Encoders
from ut_keras.text import text_encoder

_LICENCE = "research use (WMT; Europarl, UN and Common Crawl text under their own terms)"
_TED = "CC BY-NC-ND (TED)"
_INDONESIAN = "IWSLT: CC BY-NC-ND (TED); PANL-BPPT: research use"
_PLAYS = "none stated; the modern lines are SparkNotes'"
_MOST_BYTES = 20 * 10**9
_GITHUB = "https://github.com"
_STATMT = "http://data.statmt.org"
# Sizes of the large archives in bytes, from the checksum files of tensorflow-datasets.
_SIZES = {
    "training-parallel-nc-v13.tgz": 113_157_482,
    "training-parallel-nc-v9.tgz": 80_418_416,
    "training-parallel-commoncrawl.tgz": 918_311_367,
    "training-parallel-europarl-v7.tgz": 657_632_379,
    "training-parallel-ep-v8.tgz": 246_201_434,
    "training-parallel-un.tgz": 2_365_634_246,
    "training-giga-fren.tar": 2_595_102_720,
    "paracrawl-release1.en-et.zipporah0-dedup-clean.tgz": 78_283_314,
    "rapid2016.tgz": 161_050_516,
}


# --- The files ------------------------------------------------------------------------------------


def _corpus(url, sides, sha256=None, licence=_LICENCE, members=(), part="", most=_MOST_BYTES):
    """Return a corpus of two files in one archive.

    Args:
        url: str, the URL of the archive.
        sides: str, the names of both files. "train.{en,de}" stands for train.en and train.de.
        sha256: str, the checksum of the archive, or None.
        licence: str, the licence of the corpus.
        members: tuple of str, patterns of the files to unpack. The default pattern matches both
            files.
        part: str, see `download.RawFile`.
        most: int, the largest size of the unpacked files in bytes.
    """
    head, both, tail = re.split("[{}]", sides)
    members = members or (f"{head}*{tail}",)
    archive = download.at(url, sha256, licence=licence, members=members, most_bytes=most, part=part)
    archive = archive._replace(size=_SIZES.get(archive.name))
    names = tuple((f"{head}{side}{tail}",) for side in both.split(","))
    return parallel_text.Sides((archive, archive), names)


# Archives that contain several languages. Each value consists of the URL, the checksum, the pattern
# for the files of a language, and the languages that are unpacked into a common folder. Every other
# language is unpacked into its own folder.
_SHARED = {
    "news v13": (
        f"{_STATMT}/wmt18/translation-task/training-parallel-nc-v13.tgz",
        "17992b7e919cfb754c60f4e754148bc23b80706ad0ed7b34150831a554b40c91",
        "training-parallel-nc-v13/news-commentary-v13.{}-en",
        ("de",),
    ),
    "news v9": (
        "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        "training/news-commentary-v9.{}-en",
        ("fr",),
    ),
    "common crawl": (
        "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        "commoncrawl.{}-en",
        ("de", "fr"),
    ),
    "europarl v7": (
        "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        "training/europarl-v7.{}-en",
        ("de", "fr"),
    ),
    "un": (
        "http://www.statmt.org/wmt13/training-parallel-un.tgz",
        "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
        "un/undoc.2000.{}-en",
        ("fr",),
    ),
}


def _shared(language, *names):
    for name in names:
        url, sha256, stem, together = _SHARED[name]
        languages, part = (together, "") if language in together else ((language,), language)
        members = tuple(f"{stem.format(each)}.*" for each in languages)
        sides = f"{stem.format(language)}.{{en,{language}}}"
        yield _corpus(url, sides, sha256, members=members, part=part)


def _paracrawl_1(language, sha256=None):
    name = f"paracrawl-release1.en-{language}.zipporah0-dedup-clean"
    url = f"https://s3.amazonaws.com/web-language-models/paracrawl/release1/{name}.tgz"
    sides = f"{name}.{{en,{language}}}"
    return _corpus(url, sides, sha256, "CC0 (ParaCrawl)", most=10 * _MOST_BYTES)


def _newstest2013(language):
    # This is the archive of WMT17, which T2T uses. The archive of WMT19 has the same test sets.
    url = f"{_STATMT}/wmt17/translation-task/dev.tgz"
    members = ("dev/newstest2013.*", "dev/newstest2014*")
    return _corpus(url, f"dev/newstest2013.{{en,{language}}}", members=members)


def _newstest2014(language):
    """Return the complete corpus newstest2014 of 3,003 lines.

    The text files `newstest2014.{en,…}` can be used instead of the files in the archive.
    """
    names = tuple(
        (f"dev/newstest2014-{language}en-{kind}.{side}.sgm", f"dev/newstest2014.{side}")
        for kind, side in (("ref", "en"), ("src", language))
    )
    return _newstest2013(language)._replace(names=names)


def _opennmt(part):
    url = "https://s3.amazonaws.com/opennmt-trainingdata/baseline-1M-enfr.tgz"
    folder = "baseline-1M-enfr/baseline-1M_"
    return _corpus(url, f"{folder}{part}.{{en,fr}}", members=(f"{folder}*",), most=5 * 10**9)


def _indonesian(name, sides):
    url = f"{_GITHUB}/prasastoadi/parallel-corpora-en-id/raw/master/{name}.tgz"
    return _corpus(url, sides, licence=_INDONESIAN)


def _panl(subject, words):
    name = f"PANL-BPPT-{subject}"
    return _indonesian(f"{name}-EN-ID-{words}", f"{name}-{{EN,ID}}-{words}.txt")


def _setswana(split):
    url = f"{_GITHUB}/LauraMartinus/ukuxhumana/blob/master/data/en_tn/eng_tswane.{split}.tar.gz"
    sides = f"entn_parallel.{split}.{{en,tn}}"
    return _corpus(f"{url}?raw=true", sides, licence="Creative Commons (Autshumato)")


def _plays(split, source, target):
    url = f"{_GITHUB}/tlatkowski/st/raw/master/shakespeare.{split}.tgz"
    return _corpus(url, f"{split}.{{{source},{target}}}", licence=_PLAYS)


# --- The problems ---------------------------------------------------------------------------------

_VARIANTS: dict[str, dict[str, Any]] = {
    "32k": {},
    "8k": {"approx_vocab_size": 2**13},
    "_characters": {"vocab_type": "characters"},
    "": {},
}


class _WmtProblem(translate.TranslateProblem):
    """Base class of most problems below."""


def _register(stem, variants, train, dev, test=(), base=_WmtProblem, **attributes):
    """Register a problem STEM + VARIANT for each variant.

    Args:
        stem: str. The name without the variant, such as "translate_ende_wmt". Its second word
            gives the languages, unless `attributes` contains `source` and `target`.
        variants: str. Variants of the vocabulary and of packing, separated by spaces.
        train: a `parallel_text.Corpus` or an iterable of corpora, for training.
        dev: a corpus or an iterable of corpora, for the dev split.
        test: a corpus or an iterable of corpora, for the test split. If it is empty, the problem
            has no test split.
        base: the base class of the problem.
        **attributes: attributes of the class of the problem.
    """
    files = {
        split: (corpora,) if isinstance(corpora, parallel_text.Corpus) else tuple(corpora)
        for split, corpora in (("train", train), ("dev", dev), ("test", test))
        if corpora
    }
    _, languages, _ = stem.split("_", 2)
    class_attributes = {
        "files": files,
        "source": languages[:2],
        "target": languages[2:],
        **attributes,
    }
    for variant in variants.split(" "):
        size = variant.removesuffix("_packed")
        rows = {"vocab_name": f"{stem}{size}"} if size != variant else {}
        bases = (packed.Packed, base) if rows else (base,)
        problem.declare(f"{stem}{variant}", *bases, **class_attributes, **rows, **_VARIANTS[size])


class _TwoVocabularies(translate.TranslateProblem):
    """A problem with one vocabulary per language.

    The files are `vocab.NAME.8192.subwords.en` and `vocab.NAME.8192.subwords.zh`.
    """

    _bytes_for_vocab = 1e8  # number of bytes per side, as in T2T

    def side_files(self) -> tuple[str, ...]:
        return tuple(f"{self.vocab_filename}.{side}" for side in (self.source, self.target))

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        paths = (os.path.join(data_dir or "", name) for name in self.side_files())
        encoders = map(text_encoder.SubwordTextEncoder, paths)
        return dict(zip(("inputs", "targets"), encoders, strict=True))

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        paths = {
            split: [files.find(tmp_dir) for files in parts] for split, parts in self.files.items()
        }
        for name, side in zip(self.side_files(), zip(*paths["train"], strict=True), strict=True):
            path = os.path.join(data_dir, name)
            if not os.path.exists(path):
                lines = (parallel_text.lines_for_vocab(raw, self._bytes_for_vocab) for raw in side)
                vocabulary = self.build_vocab(itertools.chain.from_iterable(lines))
                text_encoder.store_new(vocabulary, path)


_CZENG = download.at(
    "https://lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-1458/"
    "data-plaintext-format.tar",
    licence="CzEng: research and education, by registration",
    members=("data.plaintext-format/*train.gz",),
    most_bytes=_MOST_BYTES,
)
_register(
    "translate_encs_wmt",
    "32k _characters",
    train=(
        parallel_text.Tables(_CZENG, _CZENG.members[0], source=3, target=2),
        *_shared("cs", "news v13", "common crawl", "europarl v7"),
    ),
    dev=_newstest2013("cs"),
)
_register(
    "translate_ende_wmt",
    "32k 8k _characters 32k_packed 8k_packed",
    paper="Dehghani et al. 2019, table 7 (WMT14 En-De)",
    tfds_name="wmt_t2t_translate/de-en",
    # T2T uses the same files. The original WMT14 data has version 9 of News Commentary instead of
    # version 13.
    train=_shared("de", "news v13", "common crawl", "europarl v7"),
    dev=_newstest2013("de"),
    test=_newstest2014("de"),
)
_register(
    "translate_enes_wmt",
    "32k 8k _characters 32k_packed 8k_packed",
    train=(*_shared("es", "common crawl", "europarl v7", "un"), _paracrawl_1("es")),
    dev=_newstest2013("es"),
)
_register(
    "translate_enet_wmt",
    "32k _characters",
    train=(
        _corpus(
            f"{_STATMT}/wmt18/translation-task/training-parallel-ep-v8.tgz",
            "training/europarl-v8.et-en.{en,et}",
            "953eaf7f24dcfc87eff6845d13ec6ca8acbee0ccf7edf4063b8b94e943933a96",
        ),
        _paracrawl_1("et", "1c3065a8e04a5a6d09d5d5c72ece8aeabcc418eb48cf85038bba6cdef638dc7d"),
        _corpus(
            f"{_STATMT}/wmt18/translation-task/rapid2016.tgz",
            "rapid2016.en-et.{en,et}",
            "41557dd5d8f0ed3a6d98bce3b798b1a9d3b68361eb99d902329ddbb943a6b55a",
        ),
    ),
    dev=_corpus(
        f"{_GITHUB}/stefan-it/nmt-en-et/raw/master/data/newsdev2018-enet.tar.gz",
        "newsdev2018-enet-{src.en,ref.et}",
    ),
)
_register(
    "translate_enfr_wmt_small",
    "32k 8k _characters",
    train=_opennmt("train"),
    dev=_opennmt("valid"),
    test=_newstest2014("fr"),
)
_register(
    "translate_enfr_wmt",
    "32k 8k _characters 32k_packed",
    tfds_name="wmt14_translate/fr-en",
    train=(
        *_shared("fr", "common crawl", "europarl v7", "news v9"),
        _corpus(
            "http://www.statmt.org/wmt10/training-giga-fren.tar",
            "giga-fren.release2.fixed.{en,fr}.gz",
            "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
        ),
        *_shared("fr", "un"),
    ),
    dev=_newstest2013("fr"),
    test=_newstest2014("fr"),
)
_register(
    "translate_enid_iwslt",
    "32k",
    train=(
        _indonesian("IWSLT17.train.en-id", "IWSLT17.train.en-id.{en,id}"),
        _panl("ECO", "150Kw"),
        _panl("INT", "150Kw"),
        _panl("SCI", "100Kw"),
        _panl("SPO", "100Kw"),
    ),
    dev=_indonesian("IWSLT17.TED.tst2017plus.en-id", "IWSLT17.TED.tst2017plus.en-id.{en,id}"),
)
_register(
    "translate_enmk_setimes",
    "32k _characters",
    train=_corpus(
        "http://nlp.ffzg.hr/data/corpora/setimes/setimes.en-mk.txt.tgz",
        "setimes.en-mk.{en,mk}.txt",
        licence="CC BY-SA",
    ),
    dev=_corpus(  # sentences of the novel 1984 by Orwell
        f"{_GITHUB}/stefan-it/nmt-en-mk/raw/master/data/MTE-1984-dev.enmk.tgz",
        "MTE1984-dev.{en,mk}",
        licence="MULTEXT-East: research use",
    ),
)
_register(
    "translate_enro_wmt",
    "8k 32k _characters",
    train=(
        _corpus("http://www.statmt.org/europarl/v7/ro-en.tgz", "europarl-v7.ro-en.{en,ro}"),
        _corpus(
            "http://opus.nlpl.eu/download.php?f=SETIMES/v2/moses/en-ro.txt.zip",
            "SETIMES.en-ro.{en,ro}",
            licence="CC BY-SA",
        ),
    ),
    dev=_corpus(
        f"{_STATMT}/wmt16/translation-task/dev-romanian-updated.tgz",
        "dev/newsdev2016-roen-{ref.en,src.ro}.sgm",
    ),
)
_register(
    "translate_entn_rma",
    "",
    train=_setswana("train"),
    dev=_setswana("dev"),
    vocab_filename="vocab.entn.32768",
)
_VIETNAMESE = f"{_GITHUB}/stefan-it/nmt-en-vi/raw/master/data"
_register(
    "translate_envi_iwslt",
    "32k",
    train=_corpus(f"{_VIETNAMESE}/train-en-vi.tgz", "train.{en,vi}", licence=_TED),
    dev=_corpus(f"{_VIETNAMESE}/dev-2012-en-vi.tgz", "tst2012.{en,vi}", licence=_TED),
)
_register(
    "translate_enzh_wmt",
    "8k",
    base=_TwoVocabularies,
    num_train_shards=10,
    train=_shared("zh", "news v13"),
    dev=_corpus(
        f"{_STATMT}/wmt18/translation-task/dev.tgz",
        "dev/newsdev2017-enzh-{src.en,ref.zh}.sgm",
        part="zh",
    ),
)
for _sides in (("shakespeare", "modern"), ("modern", "shakespeare")):
    _ages = ["original" if side == "shakespeare" else side for side in _sides]
    _register(
        f"style_transfer_{'_to_'.join(_sides)}",  # lines of plays (Xu et al. 2012)
        " _characters",
        source=_ages[0],
        target=_ages[1],
        num_train_shards=1,
        approx_vocab_size=8000,
        train=_plays("train", *_ages),
        dev=_plays("dev", *_ages),
    )
