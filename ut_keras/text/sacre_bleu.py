"""sacreBLEU with the tokenizer for a target language.

    metric = sacre_bleu.metric(language="zh")         BLEU(trg_lang="zh"): one token per character
    metric.corpus_score(hypotheses, [references]).score  ->  69.85, where 13a gives 0

sacreBLEU 2.6 has its own tokenizers for Chinese, Japanese and Korean. It uses `13a` for all other
languages. The tokenizers for Japanese and Korean require packages that sacreBLEU does not install.
This module does not import TensorFlow.

References:
    Post 2018.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ut_keras.errors import UsageError
from ut_keras.text.printed_notes import print_once

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

TOKENIZERS = (
    *("none", "zh", "13a", "intl", "char", "ja-mecab", "ko-mecab"),
    *("spm", "flores101", "flores200", "spBLEU-1K"),
)
LANGUAGES = ("zh", "ja", "ko")  # languages for which sacreBLEU has a tokenizer
# Common three-letter language codes and country codes -> the ISO 639-1 codes of sacreBLEU.
_LANGUAGE_ALIASES = {
    **dict.fromkeys(("cmn", "chi", "zho", "cn"), "zh"),
    **dict.fromkeys(("jpn", "jp"), "ja"),
    "kor": "ko",
}
# Tokenizers that split only at spaces, punctuation and symbols.
_SPLIT_AT_SPACES = ("13a", "intl")
# Chinese characters and kana; Thai, Lao, Burmese, Khmer.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
# If words have at least this many characters on average, the text is assumed to have no spaces
# between words.
_MIN_UNSEGMENTED_LENGTH = 8
# In fewer lines, a space before the full stop may be chance. sacreBLEU uses the same number.
_MIN_TOKENIZED_LINES = 100


def language_of(code: str) -> str:
    """Return sacreBLEU's code for a language: "zh" for "zh-CN", "zh_Hant" or "zho"."""
    first = re.split("[-_]", str(code).lower(), maxsplit=1)[0]
    return _LANGUAGE_ALIASES.get(first, first)


def metric(tokenize: str = "", language: str = "", lowercase: bool = False) -> "BLEU":
    """Make sacreBLEU's metric.

    Args:
        tokenize: str. The name of a tokenizer. "" selects the tokenizer for the language.
        language: str. The target language.
        lowercase: bool. Whether to ignore case.

    Returns:
        `sacrebleu.metrics.BLEU` without sacreBLEU's warning about tokenized text, which asks for an
        argument that ut_keras' commands lack. See `tokenized_warning`.

    Raises:
        UsageError: if the tokenizer requires a package or a file that is missing.
    """
    from sacrebleu.metrics import BLEU

    language = language_of(language)
    try:
        if tokenize:
            return BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
        return BLEU(lowercase=lowercase, trg_lang=language, force=True)
    except (RuntimeError, AssertionError, ImportError, OSError) as error:
        raise UsageError(_missing_package(tokenize, language, error)) from error


def _missing_package(tokenize, language, error):
    extra = {"ja": "ja", "ko": "ko", "ja-mecab": "ja", "ko-mecab": "ko"}.get(tokenize or language)
    which = f"tokenizer {tokenize}" if tokenize else f"tokenizer of the target language {language}"
    needs = f"its packages: pip install 'sacrebleu[{extra}]'" if extra else "its package and file"
    message = " ".join(str(error).split())
    return f"sacreBLEU's {which} requires {needs}. Received: {message}"


def tokenizer_warning(metric: "BLEU", references: Sequence[str]) -> str:
    """Return a warning if the tokenizer does not split the references; "" otherwise."""
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


def tokenized_warning(hypotheses: Sequence[str]) -> str:
    """Return a warning if the hypotheses seem to be tokenized text; "" otherwise."""
    number = sum(line.rstrip().endswith(" .") for line in hypotheses)
    if number < _MIN_TOKENIZED_LINES:
        return ""
    return (
        f'{number} translations end with " ." as in tokenized text; sacreBLEU scores ordinary '
        "(detokenized) text, and scores of tokenized text are not comparable with published scores"
    )


def corpus_bleu(
    references: Sequence[str], hypotheses: Sequence[str], language: str, name: str
) -> dict[str, float]:
    """Return {"bleu": cased BLEU in percent} for decoded translations.

    The first call prints sacreBLEU's signature. Scores can only be compared if their signatures are
    equal.

    Args:
        references, hypotheses: list of str, one per sentence.
        language: str. The target language; "" if unknown.
        name: str. The problem's name, for the printed lines.
    """
    made = metric(language=language)
    score = made.corpus_score(list(hypotheses), [list(references)]).score
    print_once(f"{name}: bleu is sacreBLEU's {made.get_signature()}")
    if unsplit := tokenizer_warning(made, references):
        print_once(
            f"note: {name}: {unsplit}. The target language of the problem must be set, for example "
            f'to "zh". Received: {language or "none"}'
        )
    if tokenized := tokenized_warning(hypotheses):
        print_once(f"note: {name}: {tokenized}")
    return {"bleu": score}
