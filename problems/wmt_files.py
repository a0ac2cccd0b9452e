"""The archives of the WMT translation tasks, T2T's addresses; checksums where one is known.

What lies in them is in the problems that read them. T2T takes `dev.tgz` of 2017; that of 2019 holds
the same test sets.
"""

from problems import parallel_text
from ut_keras.data.writing import download

LICENCE = "research use (WMT; Europarl, UN and Common Crawl text under their own terms)"


def archive(
    url: str,
    sha256: str | None = None,
    members: tuple[str, ...] = (),
    most_bytes: int = 20 * 10**9,
    licence: str = LICENCE,
) -> download.RawFile:
    """An archive that is called as its address ends."""
    return download.RawFile(url.rpartition("/")[2], url, sha256, licence, members, most_bytes)


def _part(whole, language, *members):
    """What problems of another language want of an archive that is declared below."""
    return whole._replace(members=members, part=language)


NEWS_COMMENTARY_V13 = archive(
    "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz",
    "17992b7e919cfb754c60f4e754148bc23b80706ad0ed7b34150831a554b40c91",
    ("training-parallel-nc-v13/news-commentary-v13.de-en.*",),
)
NEWS_COMMENTARY_V9 = archive(
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    ("training/news-commentary-v9.fr-en.*",),
)
COMMON_CRAWL = archive(
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    ("commoncrawl.de-en.*", "commoncrawl.fr-en.*"),
)
EUROPARL_V7 = archive(
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    ("training/europarl-v7.de-en.*", "training/europarl-v7.fr-en.*"),
)
GIGA_FREN = archive(
    "http://www.statmt.org/wmt10/training-giga-fren.tar",
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
    ("giga-fren.release2.fixed.*.gz",),
)
UNDOC = archive(
    "http://www.statmt.org/wmt13/training-parallel-un.tgz",
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
    ("un/undoc.2000.fr-en.*",),
)
DEV = archive(
    "http://data.statmt.org/wmt17/translation-task/dev.tgz",
    members=("dev/newstest2013.*", "dev/newstest2014*"),
)


RAPID_2016 = archive(
    "http://data.statmt.org/wmt18/translation-task/rapid2016.tgz",
    "41557dd5d8f0ed3a6d98bce3b798b1a9d3b68361eb99d902329ddbb943a6b55a",
    ("rapid2016.en-et.*",),
)


def newstest2013(language: str) -> parallel_text.Files:
    """The dev set from English to a language."""
    return parallel_text.Files(DEV, ("dev/newstest2013.en",), (f"dev/newstest2013.{language}",))


def common_crawl(language: str) -> parallel_text.Files:
    """Web text in Czech or Spanish and English."""
    name = f"commoncrawl.{language}-en"
    return _pair(_part(COMMON_CRAWL, language, f"{name}.*"), name, language)


def europarl_v7(language: str) -> parallel_text.Files:
    """Parliament, in Czech or Spanish and English."""
    name = f"training/europarl-v7.{language}-en"
    return _pair(_part(EUROPARL_V7, language, f"{name}.*"), name, language)


def news_commentary_v13(language: str) -> parallel_text.Files:
    """News in Czech or Chinese and English."""
    name = f"training-parallel-nc-v13/news-commentary-v13.{language}-en"
    return _pair(_part(NEWS_COMMENTARY_V13, language, f"{name}.*"), name, language)


def undoc(language: str) -> parallel_text.Files:
    """Documents of the United Nations in Spanish and English."""
    name = f"un/undoc.2000.{language}-en"
    return _pair(_part(UNDOC, language, f"{name}.*"), name, language)


def paracrawl_1(language: str, sha256: str | None = None) -> parallel_text.Files:
    """Web text, release 1 of ParaCrawl."""
    name = f"paracrawl-release1.en-{language}.zipporah0-dedup-clean"
    url = f"https://s3.amazonaws.com/web-language-models/paracrawl/release1/{name}.tgz"
    whole = archive(url, sha256, (f"{name}.*",), 200 * 10**9, "CC0 (ParaCrawl)")
    return _pair(whole, name, language)


def _pair(whole, name, language):
    return parallel_text.Files(whole, (f"{name}.en",), (f"{name}.{language}",))


def newstest2014(language: str) -> parallel_text.Files:
    """The test set, all of its 3,003 lines; plain files `newstest2014.{en,…}` do as well."""
    return parallel_text.Files(
        DEV,
        (f"dev/newstest2014-{language}en-ref.en.sgm", "dev/newstest2014.en"),
        (f"dev/newstest2014-{language}en-src.{language}.sgm", f"dev/newstest2014.{language}"),
    )
