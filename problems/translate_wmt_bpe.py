"""T2T's WMT English-German problem whose text is already split into BPE tokens.

    translate_ende_wmt_bpe32k
        inputs   "Gut@@ ach : Incre@@ ased safety for pedestri@@ ans"
        targets  "Gut@@ ach : Noch mehr Sicherheit für Fuß@@ gän@@ ger"

A token that ends in "@@" continues in the next token. The archive `wmt16_en_de.tar.gz` also has the
vocabulary `vocab.bpe.32000`. Data generation writes it to data_dir with "UNK" as the last word.
Files that are already unpacked in tmp_dir, as T2T leaves them, are read from there.

File names and vocabulary are those of tensor2tensor 1.11.0; tensor2tensor 1.15.7 no longer has the
problem. In tensor2tensor 1.2 to 1.8, the vocabulary in data_dir is called `vocab.bpe.32000` and has
no empty word before "UNK". To use such a folder, copy this vocabulary to the name that the error
message reports. In tensor2tensor 1.2, this vocabulary has none of "<pad>", "<EOS>" and "UNK", so
two BPE tokens have the ids of padding and EOS. A note reports this.

`decode/bleu` joins the tokens first. The text stays split into words, so the score differs from
that of translate_ende_wmt32k.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ut_keras.data.writing import download
from ut_keras.problems import parallel_text, problem, raw_text, text_problems, translate
from ut_keras.text import text_encoder, text_lines, word_vocabulary
from ut_keras.text.printed_notes import print_once

_VOCABULARY = "vocab.bpe.32000"
_SPLITS = {
    "train": "train.tok.clean.bpe.32000",
    "dev": "newstest2013.tok.bpe.32000",
    "test": "newstest2014.tok.bpe.32000",
}
_ARCHIVE = download.RawFile(
    "wmt16_en_de.tar.gz",
    url="",  # Google Drive requires a confirmation in a browser to download a large file
    page="https://drive.google.com/uc?export=download&id=0B_bZck-ksdkpM25jRUN2X2UxMm8",
    licence="research use (WMT; Europarl and Common Crawl text under their own terms)",
    members=(f"*{_VOCABULARY}", *(f"*{stem}.*" for stem in _SPLITS.values())),
    most_bytes=20 * 10**9,
)
_CONTINUED = re.compile(r"@@( |$)")


def _corpus(stem):
    return parallel_text.Sides((_ARCHIVE, _ARCHIVE), tuple((f"{stem}.{s}",) for s in ("en", "de")))


@problem.register("translate_ende_wmt_bpe32k")
class TranslateEndeWmtBpe32k(translate.TranslateProblem):
    """Translation of BPE tokens, with the vocabulary of the archive."""

    target = "de"
    files = {split: (_corpus(stem),) for split, stem in _SPLITS.items()}
    vocab_type = "tokens"
    approx_vocab_size = 32000
    oov_token = "UNK"

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        lines = text_lines.lines(raw_text.find(tmp_dir, _ARCHIVE, _VOCABULARY))
        yield from (line.strip() for line in lines)

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        # tensor2tensor 1.11.0 splits the file at line ends, so the last token before "UNK" is
        # empty.
        return text_encoder.TokenTextEncoder(tokens=[*texts, "", self.oov_token])

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        super().check_counts(split, data_dir, counts)
        path = os.path.join(data_dir, self.vocab_filename)
        encoder = text_encoder.TokenTextEncoder(path, replace_oov=self.oov_token)
        for note in word_vocabulary.reserved_line_warnings(encoder, self.vocab_filename, []):
            print_once(f"note: {self.name}: {note}")

    def text_for_bleu(self, text: str) -> str:
        return _CONTINUED.sub("", text)
