"""CNN / Daily Mail: 312,000 news articles and their highlights.

The problem has T2T's name.

    cnn/stories/SHA-1 OF ITS ADDRESS.story
        (CNN) -- …          the article
        @highlight
        …                   a highlight; several may follow, each after a line @highlight

    inputs   the article, its paragraphs in one line                ids of 32k subwords, EOS
    targets  the highlights in one line, each ending in a "."       ids, EOS

train 287,113          dev 13,368          test 11,490

As in T2T, only ASCII white space is removed at the ends of a line. A line that ends with a
no-break space therefore gets a full stop after this space.

References: Hermann et al. 2015; See et al. 2017.
"""

import hashlib
import os
from collections.abc import Iterator

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines

_LICENCE = "the articles are CNN's and the Daily Mail's; research use"
_STORIES = (
    "https://huggingface.co/datasets/cnn_dailymail/resolve/"
    "11343c3752184397d56efc19a8a7cceb68089318/data/"
)
_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/"
_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")
_ARCHIVES = {
    f"{paper}/stories/*": download.at(
        f"{_STORIES}{paper}_stories.tgz",
        sha256,
        licence=_LICENCE,
        members=(f"{paper}/stories/*.story",),
        most_bytes=5 * 10**9,
    )
    for paper, sha256 in (
        ("cnn", "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200"),
        ("dailymail", "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e"),
    )
}
_ADDRESSES = {
    split: download.at(f"{_LISTS}all_{part}.txt", sha256, licence=_LICENCE)
    for split, part, sha256 in (
        ("train", "train", "a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029"),
        ("dev", "val", "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db"),
        ("test", "test", "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd"),
    )
}


@problem.register("summarize_cnn_dailymail32k")
class SummarizeCnnDailymail32k(text_problems.Text2TextProblem):
    """Summaries of news articles with 32k subwords."""

    raw_files = (*_ARCHIVES.values(), *_ADDRESSES.values())
    splits = ("train", "dev", "test")

    def num_shards(self, split: str) -> int:
        return self.num_train_shards if split == "train" else 10

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        """Yield article and highlights as one text, as in T2T."""
        texts = super().texts_for_vocab(data_dir, tmp_dir)
        return map(" ".join, zip(texts, texts, strict=True))

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        paths = {
            os.path.basename(path): path
            for stories, archive in _ARCHIVES.items()
            for path in raw_text.find_all(tmp_dir, archive, stories)
        }
        for address in raw_text.read_lines(download.fetch(tmp_dir, _ADDRESSES[split])):
            path = paths.get(f"{hashlib.sha1(address.encode()).hexdigest()}.story")
            article, highlights = _read_story(path) if path else ((), ())
            if article and highlights:
                yield {"inputs": " ".join(article), "targets": " ".join(highlights)}
            else:
                self.left_out["without article or highlights" if path else "not there"] += 1


def _read_story(path):
    """Return (paragraphs of the article, highlights).

    Each paragraph and each highlight ends with an end mark, such as a full stop.
    """
    article: list[str] = []
    highlights: list[str] = []
    reads_highlights = False
    lines = text_lines.lines_without_carriage_returns(path)
    for line in filter(None, (line.strip(raw_text.ASCII_SPACES) for line in lines)):
        if line.startswith("@highlight"):
            reads_highlights = True
            continue
        if not line.endswith(_ENDS) and "@highlight" not in line:
            line += "."
        (highlights if reads_highlights else article).append(line)
    return article, highlights
