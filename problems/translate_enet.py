"""WMT18 English to Estonian, T2T's names.

    inputs   a sentence in English      ids of subwords, EOS
    targets  the same in Estonian      ids, EOS

train  Europarl v8, ParaCrawl 1, Rapid 2016          dev  newsdev2018, 2,000
"""

from problems import parallel_text, problem, text_problems, translate, wmt_files

_EUROPARL_V8 = wmt_files.archive(
    "http://data.statmt.org/wmt18/translation-task/training-parallel-ep-v8.tgz",
    "953eaf7f24dcfc87eff6845d13ec6ca8acbee0ccf7edf4063b8b94e943933a96",
    ("training/europarl-v8.et-en.*",),
)
_DEV = wmt_files.archive(
    "https://github.com/stefan-it/nmt-en-et/raw/master/data/newsdev2018-enet.tar.gz",
    members=("newsdev2018-enet-*",),
)


@problem.register("translate_enet_wmt32k")
@text_problems.register_characters("translate_enet_wmt_characters")
class TranslateEnetWmt32k(translate.TranslateProblem):
    """English to Estonian, 32k subwords."""

    licence = wmt_files.LICENCE
    target = "et"
    files = {
        "train": (
            parallel_text.Files(
                _EUROPARL_V8,
                ("training/europarl-v8.et-en.en",),
                ("training/europarl-v8.et-en.et",),
            ),
            wmt_files.paracrawl_1(
                "et", "1c3065a8e04a5a6d09d5d5c72ece8aeabcc418eb48cf85038bba6cdef638dc7d"
            ),
            parallel_text.Files(
                wmt_files.RAPID_2016, ("rapid2016.en-et.en",), ("rapid2016.en-et.et",)
            ),
        ),
        "dev": (
            parallel_text.Files(_DEV, ("newsdev2018-enet-src.en",), ("newsdev2018-enet-ref.et",)),
        ),
    }
