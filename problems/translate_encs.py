"""WMT English to Czech, T2T's names: CzEng 1.6 and WMT's, about 60 M pairs.

    inputs   a sentence in English      ids of subwords, EOS
    targets  the same in Czech      ids, EOS

train  CzEng (tables, English in column 3, Czech in 2), News Commentary v13, Common Crawl,
       Europarl v7
dev    newstest2013, 3,000
"""

from problems import parallel_text, problem, text_problems, translate, wmt_files

_CZENG = wmt_files.archive(
    "https://lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-1458/"
    "data-plaintext-format.tar",
    members=("data.plaintext-format/*train.gz",),
    licence="CzEng: research and education, by registration",
)


@problem.register("translate_encs_wmt32k")
@text_problems.register_characters("translate_encs_wmt_characters")
class TranslateEncsWmt32k(translate.TranslateProblem):
    """English to Czech, 32k subwords."""

    licence = wmt_files.LICENCE
    target = "cs"
    files = {
        "train": (
            parallel_text.Tables(_CZENG, "data.plaintext-format/*train.gz", source=3, target=2),
            wmt_files.news_commentary_v13("cs"),
            wmt_files.common_crawl("cs"),
            wmt_files.europarl_v7("cs"),
        ),
        "dev": (wmt_files.newstest2013("cs"),),
    }
