"""WMT English to Spanish, T2T's names.

    inputs   "A Republican strategy to counter the re-election of Obama"              ids, EOS
    targets  "Una estrategia republicana para obstaculizar la reelección de Obama"    ids, EOS

train  Common Crawl, Europarl v7, UN, ParaCrawl 1          dev  newstest2013, 3,000
"""

from problems import packed, problem, text_problems, translate, wmt_files


@problem.register("translate_enes_wmt32k")
@text_problems.register_characters("translate_enes_wmt_characters")
class TranslateEnesWmt32k(translate.TranslateProblem):
    """English to Spanish, 32k subwords."""

    licence = wmt_files.LICENCE
    target = "es"
    files = {
        "train": (
            wmt_files.common_crawl("es"),
            wmt_files.europarl_v7("es"),
            wmt_files.undoc("es"),
            wmt_files.paracrawl_1("es"),
        ),
        "dev": (wmt_files.newstest2013("es"),),
    }


@problem.register("translate_enes_wmt8k")
class TranslateEnesWmt8k(TranslateEnesWmt32k):
    """8k subwords."""

    approx_vocab_size = 2**13


@problem.register("translate_enes_wmt32k_packed")
class TranslateEnesWmt32kPacked(packed.Packed, TranslateEnesWmt32k):
    """Rows of 256 subwords."""

    vocab_name = "translate_enes_wmt32k"


@problem.register("translate_enes_wmt8k_packed")
class TranslateEnesWmt8kPacked(packed.Packed, TranslateEnesWmt8k):
    """Rows of 256 subwords."""

    vocab_name = "translate_enes_wmt8k"
