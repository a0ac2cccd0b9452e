import io
import os
import tarfile

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text import text_encoder

TRAIN = " mr. <unk> is chairman of <unk> n.v. \n the dutch the group the <unk> \n"
VALID = " the group is dutch \n"
TEST = " the outsider is <unk> \n"


def write_archive(folder):
    with tarfile.open(folder / "simple-examples.tgz", "w:gz") as archive:
        for part, text in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
            spelled = "\n".join(
                " ".join("_".join(line.split())) for line in text.rstrip("\n").split("\n")
            )
            for name, content in ((f"ptb.{part}.txt", text), (f"ptb.char.{part}.txt", spelled)):
                info = tarfile.TarInfo(f"./simple-examples/data/{name}")
                info.size = len(content.encode())
                archive.addfile(info, io.BytesIO(content.encode()))


@pytest.fixture
def raw_dir(tmp_path):
    write_archive(tmp_path)
    return tmp_path


def generate(name, raw_dir):
    problem = problems.get(name)
    problem.num_train_shards = 1
    return problem, problem.generate_data(str(raw_dir / "data"), str(raw_dir), num_processes=1)


def records(problem, raw_dir, split):
    paths = tfrecords.find(raw_dir / "data", problem.filename, split)
    return [record["targets"] for path in paths for record in tfrecords.read(path)]


def test_ptb10k_has_words(raw_dir):
    problem, counts = generate("languagemodel_ptb10k", raw_dir)
    assert counts == {"train": 2, "dev": 1, "test": 1}
    lines = text_encoder.read_lines(str(raw_dir / "data" / "vocab.lmptb.10000"))
    # In the training text, "<unk>" and "the" occur three times each, and other words less often.
    assert lines[:4] == ["<pad>", "<EOS>", "<unk>", "the"]
    assert len(lines) == 2 + 9
    encoder = problem.feature_encoders(str(raw_dir / "data"))["targets"]
    (dev,) = records(problem, raw_dir, "dev")
    assert dev[0] == 3
    assert encoder.decode(dev) == "the group is dutch <EOS>"
    (test,) = records(problem, raw_dir, "test")
    assert encoder.decode(test) == "the <unk> is <unk> <EOS>"
    assert list(problem.feature_metrics(str(raw_dir / "data"))) == ["per_word_perplexity"]


def test_characters_encode_the_text(raw_dir):
    problem, _ = generate("languagemodel_ptb_characters", raw_dir)
    encoder = problem.feature_encoders(str(raw_dir / "data"))["targets"]
    assert {encoder.decode(ids) for ids in records(problem, raw_dir, "train")} == {
        "mr. <unk> is chairman of <unk> n.v.<EOS>",
        "the dutch the group the <unk><EOS>",
    }
    assert problem.side_files() == ()
    assert list(problem.feature_metrics(str(raw_dir / "data"))) == ["per_word_perplexity"]


def test_vocabulary_of_t2t_is_used(tmp_path, capsys):
    """Ids from a vocabulary of T2T do not change.

    In T2T's vocabulary, the padding id is also a word, so the problem has no perplexity metric.
    """
    (tmp_path / "vocab.lmptb.10000").write_text("the\n<unk>\n<EOS>\nN")
    problem = problems.get("languagemodel_ptb10k")
    encoder = problem.feature_encoders(str(tmp_path))["targets"]
    assert encoder.encode("N the missing <EOS>") == [3, 0, 1, 2]
    assert problem.feature_metrics(str(tmp_path)) == {}
    assert "is the word 'the'" in capsys.readouterr().out


def test_archive_without_files_raises(raw_dir):
    os.rename(raw_dir / "simple-examples.tgz", raw_dir / "other.tgz")
    with tarfile.open(raw_dir / "simple-examples.tgz", "w:gz") as archive:
        archive.add(__file__, "simple-examples/README")
    with pytest.raises(DataError, match=r"simple-examples/data/ptb\.\*"):
        generate("languagemodel_ptb10k", raw_dir)
