"""sacreBLEU with the tokenizer of a target language. No TensorFlow.

    metric = sacre_bleu.metric(language="zh")         BLEU(trg_lang="zh"): one token a character
    metric.corpus_score(hypotheses, [references]).score  ->  69.85, where 13a gives 0

sacreBLEU 2.6 has tokenizers of its own for Chinese, Japanese and Korean, and scores all other
languages by `13a`. Those of Japanese and Korean need packages that sacreBLEU does not install.

References: Post 2018.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ut_keras.errors import UsageError

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

TOKENIZERS = (
    *("none", "zh", "13a", "intl", "char", "ja-mecab", "ko-mecab"),
    *("spm", "flores101", "flores200", "spBLEU-1K"),
)
# sacreBLEU knows languages by ISO 639-1; others write ISO 639-3, or the country.
_LANGUAGE_ALIASES = {
    **dict.fromkeys(("cmn", "chi", "zho", "cn"), "zh"),
    **dict.fromkeys(("jpn", "jp"), "ja"),
    "kor": "ko",
}
# Tokenizers that split at spaces, next to punctuation and symbols.
_SPLIT_AT_SPACES = ("13a", "intl")
# Chinese characters, kana; Thai, Lao, Burmese, Khmer.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_MIN_UNSEGMENTED_LENGTH = 8  # characters, on average: no such text has spaces between its words
_printed: set[str] = set()


def language_of(code: str) -> str:
    """Returns a language as sacreBLEU names it: "zh" of "zh", "zh-CN", "zh_Hant" or "zho"."""
    first = re.split("[-_]", str(code).lower(), maxsplit=1)[0]
    return _LANGUAGE_ALIASES.get(first, first)


def metric(tokenize: str = "", language: str = "", lowercase: bool = False) -> "BLEU":
    """Makes sacreBLEU's metric.

    Args:
        tokenize: str. The name of a tokenizer; without it the one of the language is used.
        language: str. The target language.
        lowercase: bool. Whether case is ignored.
    Raises:
        UsageError: if the tokenizer needs a package, or a file, that is missing.
    """
    from sacrebleu.metrics import BLEU

    language = language_of(language)
    try:
        if tokenize:
            return BLEU(lowercase=lowercase, tokenize=tokenize)
        return BLEU(lowercase=lowercase, trg_lang=language)
    except (RuntimeError, AssertionError, ImportError, OSError) as error:
        raise UsageError(_missing_package(tokenize, language, error)) from error


def _missing_package(tokenize, language, error):
    extra = {"ja": "ja", "ko": "ko", "ja-mecab": "ja", "ko-mecab": "ko"}.get(tokenize or language)
    of = f"tokenizer {tokenize}" if tokenize else f"tokenizer of the target language {language}"
    needs = f"its packages: pip install 'sacrebleu[{extra}]'" if extra else "its package and file"
    said = " ".join(str(error).split())
    return f"sacreBLEU's {of} requires {needs}. Received: {said}"


def tokenizer_warning(metric: "BLEU", references: Sequence[str]) -> str:
    """Returns what is to be said if the tokenizer does not split the references; else ""."""
    if metric.tokenizer_signature not in _SPLIT_AT_SPACES:
        return ""
    text = " ".join(references)
    words = text.split()
    letters = sum(map(str.isalnum, text))
    found = len(_WITHOUT_SPACES.findall(text))
    if 2 * found <= letters or sum(map(len, words)) < _MIN_UNSEGMENTED_LENGTH * len(words):
        return ""
    return (
        f"the references are in a script without spaces, so the tokenizer "
        f"{metric.tokenizer_signature} treats each sentence as one word, and the score means "
        "nothing"
    )


def corpus_bleu(
    references: Sequence[str], hypotheses: Sequence[str], language: str, name: str
) -> dict[str, float]:
    """Scores what a translation problem decoded: {"bleu": cased BLEU in percent}.

    The first time, it prints sacreBLEU's signature, without which the score cannot be compared.
    """
    made = metric(language=language)
    score = made.corpus_score(list(hypotheses), [list(references)]).score
    _print_once(f"{name}: bleu is sacreBLEU's {made.get_signature()}")
    if unsplit := tokenizer_warning(made, references):
        _print_once(
            f"note: {name}: {unsplit}. The target language of the problem must be set, for example "
            f'to "zh". Received: {language or "none"}'
        )
    return {"bleu": score}


def _print_once(line):
    if line not in _printed:
        _printed.add(line)
        print(line, flush=True)
