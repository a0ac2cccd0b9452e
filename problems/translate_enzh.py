"""WMT18 English to Chinese, T2T's name: News Commentary v13, 252,000 pairs.

    inputs   a sentence in English      ids of English subwords, EOS
    targets  the same in Chinese        ids of Chinese subwords, EOS

A vocabulary for each side: `vocab.translate_enzh_wmt8k.8192.subwords.en` and `….zh`.

train  News Commentary v13          dev  newsdev2017, 2,002
"""

import itertools
import os

from problems import parallel_text, problem, translate, wmt_files
from ut_keras.text import text_encoder

_BYTES_FOR_VOCAB = 1e8  # of each side; T2T's
_DEV = wmt_files.archive(
    "http://data.statmt.org/wmt18/translation-task/dev.tgz",
    members=("dev/newsdev2017-enzh-*",),
)._replace(part="zh")


@problem.register("translate_enzh_wmt8k")
class TranslateEnzhWmt8k(translate.TranslateProblem):
    """English to Chinese, 8k subwords of each language."""

    licence = wmt_files.LICENCE
    target = "zh"
    approx_vocab_size = 2**13
    num_train_shards = 10
    files = {
        "train": (wmt_files.news_commentary_v13("zh"),),
        "dev": (
            parallel_text.Files(
                _DEV, ("dev/newsdev2017-enzh-src.en.sgm",), ("dev/newsdev2017-enzh-ref.zh.sgm",)
            ),
        ),
    }

    def side_files(self) -> tuple[str, ...]:
        return tuple(f"{self.vocab_filename}.{language}" for language in ("en", "zh"))

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        paths = (os.path.join(data_dir or "", name) for name in self.side_files())
        encoders = map(text_encoder.SubwordTextEncoder, paths)
        return dict(zip(("inputs", "targets"), encoders, strict=True))

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        paths = {
            split: [parallel_text.find(tmp_dir, files) for files in parts]
            for split, parts in self.files.items()
        }
        for name, side in zip(self.side_files(), zip(*paths["train"], strict=True), strict=True):
            path = os.path.join(data_dir, name)
            if not os.path.exists(path):
                lines = (parallel_text.lines_for_vocab(raw, _BYTES_FOR_VOCAB) for raw in side)
                vocabulary = self.build_vocab(itertools.chain.from_iterable(lines))
                vocabulary.store_to_file(path)
