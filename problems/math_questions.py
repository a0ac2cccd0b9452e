"""Questions about numbers and programs, from files. The problems' names are T2T's.

    problem                        inputs                                targets
    algorithmic_math_two_variables "y=691,x=-999,y*x"                    "-690309"
    algorithmic_math_deepmind_all  "Solve -42*r + 27*c = -1167 and …"    "4"
    program_search_algolisp        "you are given an array of numbers …" "[ reduce [ filter … ] ]"

The first two problems are encoded as characters (bytes + 2), the third with one vocabulary of
subwords. Every record ends with EOS.

- Two variables (Wangperawong 2018): one file, `symbolic_math_train.txt`. Every eleventh line is in
  the dev split. (T2T uses one of eleven files, which is the same share.)
- DeepMind's dataset (Saxton et al. 2019) with all modules. The train split consists of the parts
  easy, medium and hard, the dev split of interpolate and extrapolate.
- AlgoLisp (Polosukhin & Skidanov 2018): the inputs are a description of a program. The targets are
  the program as a tree, in which brackets are words.
"""

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import json_file
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines

_HELD_OUT_EVERY = 11
_DEEPMIND = download.at(
    "https://storage.googleapis.com/mathematics-dataset/mathematics_dataset-v1.0.tar.gz",
    licence="Apache 2.0",
    members=("*v1.0/*.txt",),
    most_bytes=50 * 10**9,
)
_ALGOLISP = {
    split: download.at(f"https://www.dropbox.com/s/{folder}/metaset3.{split}.jsonl.gz?dl=1")
    for split, folder in (
        ("train", "qhun6kml9yb2ui9"),
        ("dev", "aajkw83j2ps8bzx"),
        ("test", "f1x9ybkjpf371cp"),
    )
}


@problem.register("algorithmic_math_two_variables")
class MathTwoVariables(raw_text.FromArchive, text_problems.Text2TextProblem):
    """Sums, differences and products of two variables with given values."""

    vocab_type = "characters"
    num_train_shards = 10
    archive = download.at(
        "https://art.wangperawong.com/mathematical_language_understanding_train.tar.gz",
        members=("*symbolic_math_train.txt",),
        most_bytes=10 * 10**9,
    )
    members = ("symbolic_math_train.txt",)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = self.path(split, tmp_dir)
        for number, line in enumerate(filter(None, raw_text.read_lines(path)), start=1):
            if (number % _HELD_OUT_EVERY == 0) != (split == "dev"):
                continue
            question, colon, answer = line.partition(":")
            if not colon:
                raise contract.line_error("A line must be question:answer.", path, number, line)
            yield {"inputs": question, "targets": answer}


@problem.register("algorithmic_math_deepmind_all")
class MathDeepmindAll(text_problems.Text2TextProblem):
    """Questions of school mathematics."""

    vocab_type = "characters"
    num_train_shards = 128
    raw_files = (_DEEPMIND,)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        levels = {
            "train": ("train-easy", "train-medium", "train-hard"),
            "dev": ("interpolate", "extrapolate"),
        }
        for level in levels[split]:
            # tmp_dir may contain the same questions in several folders, of which one is read.
            folders = ("mathematics_dataset-v1.0", "v1.0", "*v1.0")
            patterns = (f"{folder}/{level}/*.txt" for folder in folders)
            for path in raw_text.find_all(tmp_dir, _DEEPMIND, *patterns):
                lines = list(raw_text.read_lines(path, raw_text.ASCII_SPACES))
                # An empty line is a question or an answer, as in T2T, unless it only ends the file.
                while lines and not lines[-1] and (len(lines) % 2 or not lines[-2]):
                    lines.pop()
                if len(lines) % 2:
                    raise DataError(
                        f"Lines must be questions and answers in turn. Received: {path} with "
                        f"{len(lines)} lines."
                    )
                for question, answer in zip(lines[::2], lines[1::2], strict=True):
                    yield {"inputs": question, "targets": answer}


@problem.register("program_search_algolisp")
class ProgramSearchAlgolisp(text_problems.Text2TextProblem):
    """Descriptions of tasks and their programs in a small Lisp."""

    splits = ("train", "dev", "test")
    raw_files = tuple(_ALGOLISP.values())

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = download.fetch(tmp_dir, _ALGOLISP[split])
        for number, line in enumerate(raw_text.with_text(text_lines.lines(path), path), start=1):
            try:
                entry = json_file.parse(line)
                if not isinstance(entry["text"], list):  # `join` would separate the characters
                    raise TypeError(f"text {entry['text']!r}")
                words, tree = " ".join(entry["text"]), " ".join(_flat(entry["short_tree"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                expected = "A line must be a JSON object with the lists text and short_tree."
                raise contract.line_error(expected, path, number, error) from error
            yield {"inputs": words, "targets": tree}


def _flat(tree):
    if not isinstance(tree, list):
        raise TypeError(f"short_tree {tree!r}")
    yield "["
    for part in tree:
        if isinstance(part, list):
            yield from _flat(part)
        else:
            yield part
    yield "]"
