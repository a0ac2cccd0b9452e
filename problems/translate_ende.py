"""WMT English to German, T2T's names: about 4.6 M pairs of news, parliament and web text.

    inputs   "Gutach: Increased safety for pedestrians"            ids, EOS    newstest2014, line 1
    targets  "Gutach: Noch mehr Sicherheit für Fußgänger"          ids, EOS

`translate_ende_wmt32k` and `8k` have a vocabulary of about 32,768 or 8,192 subwords, shared by both
languages (`vocab.translate_ende_wmt32k.32768.subwords`); `characters` has bytes; `_packed` rows of
256 subwords. `…_rev` is German to English, on the same files.

train  News Commentary v13, Common Crawl, Europarl v7     (T2T's; WMT14 itself has v9 of the first)
dev    newstest2013, 3,000                                test  newstest2014, 3,003 (not in T2T)
"""

from problems import packed, parallel_text, problem, text_problems, translate, wmt_files


@problem.register("translate_ende_wmt32k")
@text_problems.register_characters("translate_ende_wmt_characters")
class TranslateEndeWmt32k(translate.TranslateProblem):
    """English to German, 32k subwords."""

    paper = "Dehghani et al. 2019, table 7 (WMT14 En-De)"
    licence = wmt_files.LICENCE
    target = "de"
    tfds_name = "wmt_t2t_translate/de-en"
    files = {
        "train": (
            parallel_text.Files(
                wmt_files.NEWS_COMMENTARY_V13,
                ("training-parallel-nc-v13/news-commentary-v13.de-en.en",),
                ("training-parallel-nc-v13/news-commentary-v13.de-en.de",),
            ),
            parallel_text.Files(
                wmt_files.COMMON_CRAWL, ("commoncrawl.de-en.en",), ("commoncrawl.de-en.de",)
            ),
            parallel_text.Files(
                wmt_files.EUROPARL_V7,
                ("training/europarl-v7.de-en.en",),
                ("training/europarl-v7.de-en.de",),
            ),
        ),
        "dev": (wmt_files.newstest2013("de"),),
        "test": (wmt_files.newstest2014("de"),),
    }


@problem.register("translate_ende_wmt8k")
class TranslateEndeWmt8k(TranslateEndeWmt32k):
    """8k subwords."""

    approx_vocab_size = 2**13


@problem.register("translate_ende_wmt32k_packed")
class TranslateEndeWmt32kPacked(packed.Packed, TranslateEndeWmt32k):
    """Rows of 256 subwords."""

    vocab_name = "translate_ende_wmt32k"


@problem.register("translate_ende_wmt8k_packed")
class TranslateEndeWmt8kPacked(packed.Packed, TranslateEndeWmt8k):
    """Rows of 256 subwords."""

    vocab_name = "translate_ende_wmt8k"
