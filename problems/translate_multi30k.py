"""Multi30k: 29,000 image captions in English, German and French.

Training takes minutes.

A record of `translate_ende_multi30k`, the first of the dev split:

    inputs   "A group of men are loading cotton onto a truck"
             [5, 72, 19, 60, 31, 7558, 7744, 3809, 679, 3, 562, 1]                1 = EOS
    targets  "Eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen"
             [22, 81, 42, 561, 1759, 3730, 9, 3474, 2069, 3121, 13, 33, 2762, 1]

train 29,000, dev 1,014 (`val`), test 1,000 (`test_2016_flickr`). Both languages share a vocabulary
of about 8,192 subwords. T2T does not have this dataset.
"""

from collections.abc import Iterator

from ut_keras.data.writing import download
from ut_keras.problems import parallel_text, problem, translate

_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
_SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}
_LICENCE = "none stated; captions derived from Flickr30k; cite Elliott et al. 2016"
_PARTS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def _files(part, target):
    names = (f"{part}.en.gz", f"{part}.{target}.gz")
    raw_files = (download.at(_URL + name, _SHA256[name], licence=_LICENCE) for name in names)
    return (parallel_text.Sides(tuple(raw_files)),)


class Multi30k(translate.TranslateProblem):
    """Translation of English captions to another language."""

    num_train_shards = 10
    approx_vocab_size = 2**13

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        """Yield all texts, because the dataset is small."""
        for sample in self.generate_samples("train", data_dir, tmp_dir, seed=0):
            yield from sample.values()


for _target in ("de", "fr"):
    problem.declare(
        f"translate_en{_target}_multi30k",
        Multi30k,
        target=_target,
        files={split: _files(part, _target) for split, part in _PARTS.items()},
    )
