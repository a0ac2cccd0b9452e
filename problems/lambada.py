"""LAMBADA: predict the last word of a passage (Paperno et al. 2016).

    in my palm is a clear stone , and inside it is a small ivory statuette . a guardian angel .
    `` figured if you 're going to be out at night getting hit by cars , you might as well have some
    backup . '' i look at him , feeling stunned . like this is some sort of sign . but as i stare at
    harlin , his mouth curved in a confident grin , i do n't care about signs

A record of `lambada_lm`, a language model:

    targets   in my palm is a clear stone … care about signs    [21, 27, 1350, …, 64, 2062, 1]

A record of `lambada_rc` (reading comprehension), with the last word as one class id:

    inputs    in my palm is a clear stone … care about          [21, 27, 1350, …, 376, 64, 1]
    targets   signs                                             [2062]

The dev split of `lambada_lm_control` and `lambada_rc_control` is the control set, which has
unfiltered passages of the same novels.

The train split comes from the novels. For the language model, each sentence is an example, as in
T2T, so the model never sees a complete passage in training. For reading comprehension, the examples
are passages whose last word occurs in the context, as in Chu et al. 2017. (T2T uses the last word
of every sentence, which is nearly always a full stop.) `DATASET` describes the files. If tmp_dir
has none of the novels, only dev and test are generated. This suffices to evaluate a model of
`lambada_lm` with `--problem=lambada_lm_control --schedule=evaluate`.

The vocabulary is T2T's: `<pad>`, `<EOS>`, `<UNK>` and the first 60,000 lines of
lambada-vocab-2.txt. In T2T's files `<UNK>` has the id of padding and `<s>` has the id of EOS.

Metrics:

- `last_word_accuracy` and, for the language model, `last_word_perplexity` are the metrics of the
  paper (table 3). The last word can be outside the vocabulary (6.1 % of dev, 4.2 % of test, 0.5 %
  of control). Then the prediction always counts as wrong in the accuracy, and the perplexity uses
  the probability of `<UNK>`.
- T2T's `accuracy` counts the prediction `<UNK>` as correct for a word outside the vocabulary.
- For `last_word_accuracy_from_context`, the prediction is the best of the words of the passage, as
  in Chu et al. 2017. In T2T and in the paper it is the best word of the vocabulary. The last word
  occurs in the context in 83 % of dev and test and in 16 % of control.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator

from ut_keras.data import features
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import unpacking
from ut_keras.problems import last_word, perplexity, problem, raw_text, text_problems
from ut_keras.problems.problem import Encoders, Metrics, Texts

# The archive contains the four files below and train-novels/GENRE/*.txt, which are 2,662 novels
# with one sentence per line. The files may be gzipped. If one of these files is in tmp_dir, nothing
# is downloaded.
DATASET = download.at(
    "https://zenodo.org/record/2630551/files/lambada-dataset.tar.gz",
    licence="CC BY 4.0; the novels are under copyright",
    members=("*lambada_*_plain_text.txt", "*lambada-vocab-2.txt", "*train-novels*"),
    most_bytes=10 * 10**9,
)
# An optional archive by Chu et al. 2017 with passages of the novels. The last word of each passage
# occurs in its context.
COMPREHENSION = download.at(
    "http://ttic.uchicago.edu/~kgimpel/data/lambada-train-valid.tar.gz",
    members=("*train.txt",),
    most_bytes=10 * 10**9,
)
DEV = "lambada_development_plain_text.txt"  # 4,869 passages, one per line
TEST = "lambada_test_plain_text.txt"  # 5,153 passages
CONTROL = "lambada_control_test_data_plain_text.txt"  # 5,000 unfiltered passages of the same novels
VOCAB = "lambada-vocab-2.txt"  # lines of a word, a tab and its count, sorted by count
_PASSAGES = "lambada-train-valid*/**/train.txt"
_LEAST_CONTEXT = 50  # least number of words before the last sentence, as in LAMBADA's passages
_UNKNOWN = "<UNK>"


def read(tmp_dir: str | None, name: str) -> Iterator[str]:
    """Yield the lines of `DEV`, `TEST`, `CONTROL` or `VOCAB`."""
    paths = _find_local(tmp_dir, name)
    if not paths:
        raise DataError(
            f"tmp_dir must contain {name}, or {DATASET.name} from {DATASET.url} and no other file "
            f"of LAMBADA. Received: tmp_dir={tmp_dir!r} without {name}."
        )
    return _read_lines(paths[0])


def passages(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the passages of a novel whose last word occurs in the context.

    As in Chu et al. 2017, a passage begins with sentences that have at least 50 words in total. One
    more sentence follows, which ends with its last word. Each sentence is used once.
    """
    context: list[str] = []
    for sentence in sentences:
        words = sentence.split()
        if len(context) < _LEAST_CONTEXT:
            context += words
            continue
        while words and not any(character.isalnum() for character in words[-1]):
            words.pop()
        if len(words) > 1 and words[-1] in context:
            yield " ".join(context + words)
        context = []


def _find_local(tmp_dir, name):
    return raw_text.find_local(tmp_dir, DATASET, name, f"{name}.gz")


def _has_local_files(tmp_dir):
    """Return whether tmp_dir contains one of the files outside of an archive."""
    return any(_find_local(tmp_dir, name) for name in (DEV, TEST, CONTROL, VOCAB))


def _read_lines(path):
    """Yield the lines that are not empty, with single spaces between words."""
    for line in raw_text.lines(path):
        if text := " ".join(line.split()):
            yield text


class _Lambada(text_problems.WordsProblem):
    """Base class of the language model and reading comprehension."""

    splits = ("train", "dev", "test")
    num_train_shards = 10
    approx_vocab_size = 60_000
    oov_token = _UNKNOWN
    dev_file = DEV
    paper = "Universal Transformers, table 3"
    raw_files: tuple[download.RawFile, ...] = (DATASET,)

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        is_packed = raw_text.find_local(tmp_dir, DATASET, "train-novels.tar")
        if _has_local_files(tmp_dir) and not is_packed and not self.has_train(tmp_dir):
            return self.splits[1:]
        return self.splits

    def has_train(self, tmp_dir: str | None) -> bool:
        """Return whether files for the train split are available."""
        return bool(self.novels(tmp_dir))

    def novels(self, tmp_dir: str | None) -> list[str]:
        """Return the sorted paths of the novels."""
        return raw_text.find_local(tmp_dir, DATASET, "train-novels/**/*.txt")

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        if not _has_local_files(tmp_dir):
            raw_text.find(tmp_dir, DATASET, DEV, f"{DEV}.gz")
        for archive in raw_text.find_local(tmp_dir, DATASET, "train-novels.tar"):
            unpacking.unpack(archive, archive.removesuffix(".tar"), ("*.txt",), DATASET.most_bytes)
        if not self.has_train(tmp_dir):
            print(f"{self.name}: no train-novels in {tmp_dir}, skipping the train split")
        super().prepare(data_dir, tmp_dir)

    def words(self, tmp_dir: str | None) -> list[str]:
        lines = itertools.islice(read(tmp_dir, VOCAB), self.approx_vocab_size)
        return [_UNKNOWN, *(line.split(" ")[0] for line in lines)]

    def lines(self, split: str, tmp_dir: str | None) -> Iterator[str]:
        """Return the lines of a split, each of which is a passage or a sentence."""
        if split == "train":
            of_novels = (self.examples_of_novel(_read_lines(path)) for path in self.novels(tmp_dir))
            return itertools.chain.from_iterable(of_novels)
        return read(tmp_dir, self.dev_file if split == "dev" else TEST)

    # Function that takes the sentences of a novel and returns train examples.
    examples_of_novel: Callable[[Iterable[str]], Iterable[str]]

    def unknown_id(self, data_dir: str | None) -> int:
        """Return the id of words outside the vocabulary."""
        (unknown_id,) = self.text_encoder(data_dir).encode(_UNKNOWN)
        return unknown_id

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        right = last_word.mean(last_word.is_right(self.unknown_id(data_dir)))
        return {"last_word_accuracy": features.FeatureMetric(right)}


@problem.register("lambada_lm")
class LambadaLm(_Lambada):
    """A language model problem: training on sentences, evaluation on passages."""

    other_results = ("last_word_accuracy", "last_word_perplexity")
    examples_of_novel = staticmethod(iter)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return {"targets": self.text_encoder(data_dir)}

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for line in self.lines(split, tmp_dir):
            yield {"targets": line}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        of_last_word = features.FeatureMetric(last_word.cross_entropy, perplexity.exp)
        return {**super().feature_metrics(data_dir), "last_word_perplexity": of_last_word}


@problem.register("lambada_rc")
class LambadaRc(_Lambada):
    """A task to predict the last word of a passage as a class."""

    eval_metrics = ("accuracy", "accuracy_top5", "neg_log_perplexity")
    other_results = ("last_word_accuracy", "last_word_accuracy_from_context")
    class_label_features = ("targets",)
    raw_files = (DATASET, COMPREHENSION)
    examples_of_novel = staticmethod(passages)

    def has_train(self, tmp_dir: str | None) -> bool:
        return super().has_train(tmp_dir) or _has_comprehension(tmp_dir)

    def lines(self, split: str, tmp_dir: str | None) -> Iterator[str]:
        if split == "train" and _has_comprehension(tmp_dir):
            return _read_lines(raw_text.find_all(tmp_dir, COMPREHENSION, _PASSAGES)[0])
        return super().lines(split, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for line in self.lines(split, tmp_dir):
            passage, _, word = line.rpartition(" ")
            yield {"inputs": passage, "targets": word}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        right = last_word.accuracy_from_context(self.unknown_id(data_dir))
        name = "last_word_accuracy_from_context"
        return {**super().feature_metrics(data_dir), name: features.FeatureMetric(right)}


def _has_comprehension(tmp_dir):
    """Return whether the passages of Chu et al. are in tmp_dir."""
    return raw_text.is_available(tmp_dir, COMPREHENSION, _PASSAGES)


problem.declare("lambada_lm_control", LambadaLm, dev_file=CONTROL)
problem.declare("lambada_rc_control", LambadaRc, dev_file=CONTROL)
