"""English to Macedonian, T2T's names: news of the Balkans (SETimes), 200,000 pairs.

    inputs   a sentence in English      ids of subwords, EOS
    targets  the same in Macedonian      ids, EOS

train  SETimes          dev  a part of Orwell's novel (MULTEXT-East)
"""

from problems import parallel_text, problem, text_problems, translate, wmt_files

_TRAIN = wmt_files.archive(
    "http://nlp.ffzg.hr/data/corpora/setimes/setimes.en-mk.txt.tgz",
    members=("setimes.en-mk.*",),
    licence="CC BY-SA",
)
_DEV = wmt_files.archive(
    "https://github.com/stefan-it/nmt-en-mk/raw/master/data/MTE-1984-dev.enmk.tgz",
    members=("MTE1984-dev.*",),
    licence="MULTEXT-East: research use",
)


@problem.register("translate_enmk_setimes32k")
@text_problems.register_characters("translate_enmk_setimes_characters")
class TranslateEnmkSetimes32k(translate.TranslateProblem):
    """English to Macedonian, 32k subwords."""

    licence = "CC BY-SA; the dev set for research use (MULTEXT-East)"
    target = "mk"
    files = {
        "train": (
            parallel_text.Files(_TRAIN, ("setimes.en-mk.en.txt",), ("setimes.en-mk.mk.txt",)),
        ),
        "dev": (parallel_text.Files(_DEV, ("MTE1984-dev.en",), ("MTE1984-dev.mk",)),),
    }
