"""Tests of BLEU with sacreBLEU's tokenizer for the target language."""

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab

from ut_keras.bin import flags
from ut_keras.errors import UsageError
from ut_keras.text import printed_notes, sacre_bleu

REFERENCES = [
    *("猫坐在垫子上。", "今天天气很好，我们去公园散步。", "他昨天在北京买了一本新书。"),
    *("我喜欢在早上喝一杯热咖啡。", "这个城市有很多漂亮的花园。", "她每天坐公共汽车去学校。"),
    "孩子们在院子里踢足球。",
]
HYPOTHESES = [
    *("猫坐在地毯上。", "今天天气不错，我们去公园散步。", "他昨天在上海买了一本新书。"),
    *("我喜欢早上喝一杯热咖啡。", "这个城市有许多漂亮的花园。", "她每天乘公共汽车去学校。"),
    "孩子们在院子里玩足球。",
]
CHINESE = 69.85  # BLEU(trg_lang="zh"). 13a gives 0, because it finds one word per sentence.


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh_Hant", "ZH", "zho", "cmn_Hans"])
def test_corpus_bleu_uses_chinese_tokenizer(code):
    assert sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score == 0
    scores = sacre_bleu.corpus_bleu(REFERENCES, HYPOTHESES, code, "mine")
    assert scores == {"bleu": pytest.approx(CHINESE, abs=5e-3)}


def test_corpus_bleu_prints_signature_and_note_once(capsys, monkeypatch):
    monkeypatch.setattr(printed_notes, "_printed", set())
    for _ in range(2):
        sacre_bleu.corpus_bleu(REFERENCES, HYPOTHESES, "zh", "mine")
        assert sacre_bleu.corpus_bleu(REFERENCES, HYPOTHESES, "", "other") == {"bleu": 0}
    mine, other, note = capsys.readouterr().out.splitlines()
    assert mine.startswith("mine: ") and "|tok:zh|smooth:exp|version:" in mine
    assert other.startswith("other: ") and "|tok:13a|" in other
    assert note.startswith("note: other: ") and note.endswith("Received: none")


@pytest.mark.parametrize("language", ["de", "fr", "", "modern", "vi"])
def test_metric_uses_13a_for_other_languages(language):
    assert sacre_bleu.metric(language=language).tokenizer_signature == "13a"


def test_metric_prefers_a_given_tokenizer():
    assert sacre_bleu.metric("char", "zh").tokenizer_signature == "char"


@pytest.mark.parametrize(
    "language, module", [("ja", tokenizer_ja_mecab), ("ko", tokenizer_ko_mecab)]
)
def test_metric_names_missing_packages(monkeypatch, language, module):
    monkeypatch.setattr(module, "MeCab", None)
    for how in ({"language": language}, {"tokenize": f"{language}-mecab"}):
        with pytest.raises(UsageError, match=rf"sacrebleu\[{language}\]") as error:
            sacre_bleu.metric(**how)
        assert "\n" not in str(error.value)


def test_metric_uses_installed_tokenizers(monkeypatch):
    """A fake class replaces the Japanese tokenizer, which needs optional packages."""

    class Made:
        def signature(self):
            return "ja-mecab-1"

    monkeypatch.setattr(tokenizer_ja_mecab, "TokenizerJaMecab", Made)
    for language in ("ja", "jpn", "ja_JP"):
        assert sacre_bleu.metric(language=language).tokenizer_signature == "ja-mecab-1"


def test_flags_list_all_tokenizers():
    [flag] = [flag for flag in flags.BLEU if flag.name == "tokenize"]
    assert set(flag.choices) == set(BLEU.TOKENIZERS)


@pytest.mark.parametrize(
    "text, noted",
    [
        (REFERENCES[1], True),
        ("猫がマットの上に座っています。", True),
        ("แมวนั่งบนเสื่อในห้องนั่งเล่น", True),
        ("猫 坐 在 垫子 上 。", False),  # The user has split this text.
        ("고양이가 매트 위에 앉아 있습니다.", False),
        ("The cat (猫) sits on the mat.", False),
        ("Donaudampfschifffahrtsgesellschaft", False),
        ("", False),
    ],
)
def test_tokenizer_warning_for_scripts_without_spaces(text, noted):
    assert bool(sacre_bleu.tokenizer_warning(sacre_bleu.metric(), [text])) == noted
    assert not sacre_bleu.tokenizer_warning(sacre_bleu.metric("char"), [text])
