"""Shakespeare's English and today's (Xu et al. 2012), T2T's names: lines of plays, 18,000 pairs.

    train.original    "I have a mind to strike thee ere thou speak'st."
    train.modern      "I have half a mind to hit you before you speak again."

train 18,395          dev 1,218
"""

from problems import parallel_text, problem, text_problems, translate, wmt_files

_LICENCE = "none stated; the modern lines are SparkNotes'"


def _files(split, source, target):
    whole = wmt_files.archive(
        f"https://github.com/tlatkowski/st/raw/master/shakespeare.{split}.tgz",
        members=(f"{split}.original", f"{split}.modern"),
        licence=_LICENCE,
    )
    return (parallel_text.Files(whole, (f"{split}.{source}",), (f"{split}.{target}",)),)


class _StyleTransfer(translate.TranslateProblem):
    licence = _LICENCE
    num_train_shards = 1
    approx_vocab_size = 8000

    @property
    def files(self) -> dict[str, tuple[parallel_text.Corpus, ...]]:  # type: ignore[override]
        return {split: _files(split, self.source, self.target) for split in ("train", "dev")}


@problem.register("style_transfer_shakespeare_to_modern")
@text_problems.register_characters("style_transfer_shakespeare_to_modern_characters")
class StyleTransferShakespeareToModern(_StyleTransfer):
    """To today's English, 8,000 subwords."""

    source, target = "original", "modern"


@problem.register("style_transfer_modern_to_shakespeare")
@text_problems.register_characters("style_transfer_modern_to_shakespeare_characters")
class StyleTransferModernToShakespeare(_StyleTransfer):
    """To Shakespeare's English, 8,000 subwords."""

    source, target = "modern", "original"
