import gzip
import io
import itertools
import json
import tarfile

import pytest

from ut_keras import problems
from ut_keras.errors import DataError


def write_archive(path, texts):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def samples(name, tmp_path, split):
    problem = problems.get(name)
    return list(problem.generate_samples(split, None, str(tmp_path), seed=0))


def test_two_variables_reads_the_archive(tmp_path):
    lines = [f"y={i},x=-2,y*x:{-2 * i}\n" for i in range(1, 23)]
    write_archive(
        tmp_path / "mathematical_language_understanding_train.tar.gz",
        {"symbolic_math_train.txt": "".join(lines)},
    )
    name = "algorithmic_math_two_variables"
    dev = samples(name, tmp_path, "dev")
    assert dev == [
        {"inputs": "y=11,x=-2,y*x", "targets": "-22"},
        {"inputs": "y=22,x=-2,y*x", "targets": "-44"},
    ]
    assert len(samples(name, tmp_path, "train")) == 20
    counts = problems.get(name).generate_data(tmp_path / "data", str(tmp_path))
    assert counts == {"train": 20, "dev": 2}


def test_two_variables_reads_unpacked_file(tmp_path):
    (tmp_path / "symbolic_math_train.txt").write_text("y=1,x=2,y+x:3\nno answer\n")
    with pytest.raises(DataError, match="question:answer.*line 2"):
        samples("algorithmic_math_two_variables", tmp_path, "train")


def test_deepmind_reads_questions_and_answers(tmp_path):
    levels = ("train-easy", "train-medium", "train-hard", "interpolate", "extrapolate")
    texts = {
        f"mathematics_dataset-v1.0/{level}/numbers__gcd.txt": f"What is {level}?\n4\nAnd?\n-5\n"
        for level in levels
    }
    write_archive(tmp_path / "mathematics_dataset-v1.0.tar.gz", texts)
    name = "algorithmic_math_deepmind_all"
    train = samples(name, tmp_path, "train")
    assert [sample["targets"] for sample in train] == ["4", "-5"] * 3
    dev = samples(name, tmp_path, "dev")
    assert [sample["inputs"] for sample in dev] == [
        "What is interpolate?",
        "And?",
        "What is extrapolate?",
        "And?",
    ]


def test_deepmind_reads_one_of_several_folders(tmp_path):
    for folder in ("mathematics_dataset-v1.0", "v1.0", "copy-of-v1.0"):
        for level in ("train-easy", "train-medium", "train-hard"):
            path = tmp_path / folder / level / "numbers__gcd.txt"
            path.parent.mkdir(parents=True)
            path.write_text(f"Which of {level}?\n1\n")
    found = samples("algorithmic_math_deepmind_all", tmp_path, "train")
    assert [sample["inputs"] for sample in found] == [
        "Which of train-easy?",
        "Which of train-medium?",
        "Which of train-hard?",
    ]


def test_deepmind_keeps_pairs_with_an_empty_answer(tmp_path):
    path = tmp_path / "mathematics_dataset-v1.0" / "train-easy" / "numbers__gcd.txt"
    path.parent.mkdir(parents=True)
    made = problems.get("algorithmic_math_deepmind_all")
    pairs = [("One?", ""), ("Two?", "2"), ("Three?", ""), ("Four?", "4"), ("Five?", "")]
    for number in (4, 5):  # the last answer is empty if there are five pairs
        lines = [line for pair in pairs[:number] for line in pair]
        for end in ("", "\n", "\n\n", "\n\n\n"):
            path.write_text("\n".join([*lines, end]))
            found = made.generate_samples("train", "", str(tmp_path), 0)
            found = itertools.islice(found, number)
            assert [tuple(sample.values()) for sample in found] == pairs[:number]


def test_algolisp_flattens_the_program_tree(tmp_path):
    entry = {"text": ["add", "a", "to", "b"], "short_tree": ["reduce", ["+", "a", ["b"]], "0"]}
    for split in ("train", "dev", "test"):
        with gzip.open(tmp_path / f"metaset3.{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    expected = {"inputs": "add a to b", "targets": "[ reduce [ + a [ b ] ] 0 ]"}
    for split in ("train", "dev", "test"):
        assert samples("program_search_algolisp", tmp_path, split) == [expected]
    for bad in ({}, {**entry, "text": "add a to b"}, {**entry, "short_tree": "reduce"}):
        with gzip.open(tmp_path / "metaset3.dev.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(f"{json.dumps(entry)}\n{json.dumps(bad)}\n")
        with pytest.raises(DataError, match="line 2"):
            samples("program_search_algolisp", tmp_path, "dev")
