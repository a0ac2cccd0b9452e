"""WMT English to French, T2T's names: about 40 M pairs, or 1 M of them (`small`).

    inputs   "A black box in your car?"                 ids, EOS            newstest2014
    targets  "Une boîte noire dans votre voiture ?"    ids, EOS

train  Common Crawl, Europarl v7, News Commentary v9, 10^9 French-English, UN (WMT14's);
       small: OpenNMT's selection of 1 M
dev    newstest2013, 3,000; small: OpenNMT's        test  newstest2014, 3,003 (not in T2T)
"""

from problems import packed, parallel_text, problem, text_problems, translate, wmt_files
from ut_keras.data.writing import download

_SMALL = download.RawFile(
    "baseline-1M-enfr.tgz",
    "https://s3.amazonaws.com/opennmt-trainingdata/baseline-1M-enfr.tgz",
    licence=wmt_files.LICENCE,
    members=("baseline-1M-enfr/baseline-1M_*",),
    most_bytes=5 * 10**9,
)


@problem.register("translate_enfr_wmt_small32k")
@text_problems.register_characters("translate_enfr_wmt_small_characters")
class TranslateEnfrWmtSmall32k(translate.TranslateProblem):
    """English to French, 1 M pairs, 32k subwords."""

    licence = wmt_files.LICENCE
    target = "fr"
    files = {
        "train": (
            parallel_text.Files(
                _SMALL,
                ("baseline-1M-enfr/baseline-1M_train.en",),
                ("baseline-1M-enfr/baseline-1M_train.fr",),
            ),
        ),
        "dev": (
            parallel_text.Files(
                _SMALL,
                ("baseline-1M-enfr/baseline-1M_valid.en",),
                ("baseline-1M-enfr/baseline-1M_valid.fr",),
            ),
        ),
        "test": (wmt_files.newstest2014("fr"),),
    }


@problem.register("translate_enfr_wmt_small8k")
class TranslateEnfrWmtSmall8k(TranslateEnfrWmtSmall32k):
    """8k subwords."""

    approx_vocab_size = 2**13


@problem.register("translate_enfr_wmt32k")
@text_problems.register_characters("translate_enfr_wmt_characters")
class TranslateEnfrWmt32k(translate.TranslateProblem):
    """English to French, 32k subwords."""

    licence = wmt_files.LICENCE
    target = "fr"
    tfds_name = "wmt14_translate/fr-en"
    files = {
        "train": (
            parallel_text.Files(
                wmt_files.COMMON_CRAWL, ("commoncrawl.fr-en.en",), ("commoncrawl.fr-en.fr",)
            ),
            parallel_text.Files(
                wmt_files.EUROPARL_V7,
                ("training/europarl-v7.fr-en.en",),
                ("training/europarl-v7.fr-en.fr",),
            ),
            parallel_text.Files(
                wmt_files.NEWS_COMMENTARY_V9,
                ("training/news-commentary-v9.fr-en.en",),
                ("training/news-commentary-v9.fr-en.fr",),
            ),
            parallel_text.Files(
                wmt_files.GIGA_FREN,
                ("giga-fren.release2.fixed.en.gz",),
                ("giga-fren.release2.fixed.fr.gz",),
            ),
            parallel_text.Files(
                wmt_files.UNDOC, ("un/undoc.2000.fr-en.en",), ("un/undoc.2000.fr-en.fr",)
            ),
        ),
        "dev": (wmt_files.newstest2013("fr"),),
        "test": (wmt_files.newstest2014("fr"),),
    }


@problem.register("translate_enfr_wmt8k")
class TranslateEnfrWmt8k(TranslateEnfrWmt32k):
    """8k subwords."""

    approx_vocab_size = 2**13


@problem.register("translate_enfr_wmt32k_packed")
class TranslateEnfrWmt32kPacked(packed.Packed, TranslateEnfrWmt32k):
    """Rows of 256 subwords."""

    vocab_name = "translate_enfr_wmt32k"
