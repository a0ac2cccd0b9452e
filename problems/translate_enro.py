"""WMT16 English to Romanian, T2T's names: about 600,000 pairs.

    inputs   a sentence in English      ids of subwords, EOS
    targets  the same in Romanian      ids, EOS

train  Europarl v7, SETimes v2          dev  newsdev2016, 1,999
"""

from problems import parallel_text, problem, text_problems, translate, wmt_files
from ut_keras.data.writing import download

_EUROPARL = wmt_files.archive(
    "http://www.statmt.org/europarl/v7/ro-en.tgz", members=("europarl-v7.ro-en.*",)
)
_SETIMES = download.RawFile(
    "en-ro.txt.zip",
    "http://opus.nlpl.eu/download.php?f=SETIMES/v2/moses/en-ro.txt.zip",
    licence="CC BY-SA",
    members=("SETIMES.en-ro.*",),
)
_DEV = wmt_files.archive(
    "http://data.statmt.org/wmt16/translation-task/dev-romanian-updated.tgz",
    members=("dev/newsdev2016-roen-*",),
)


@problem.register("translate_enro_wmt8k")
@text_problems.register_characters("translate_enro_wmt_characters")
class TranslateEnroWmt8k(translate.TranslateProblem):
    """English to Romanian, 8k subwords."""

    licence = wmt_files.LICENCE
    target = "ro"
    approx_vocab_size = 2**13
    files = {
        "train": (
            parallel_text.Files(_EUROPARL, ("europarl-v7.ro-en.en",), ("europarl-v7.ro-en.ro",)),
            parallel_text.Files(_SETIMES, ("SETIMES.en-ro.en",), ("SETIMES.en-ro.ro",)),
        ),
        "dev": (
            parallel_text.Files(
                _DEV, ("dev/newsdev2016-roen-ref.en.sgm",), ("dev/newsdev2016-roen-src.ro.sgm",)
            ),
        ),
    }


@problem.register("translate_enro_wmt32k")
class TranslateEnroWmt32k(TranslateEnroWmt8k):
    """32k subwords."""

    approx_vocab_size = 2**15
