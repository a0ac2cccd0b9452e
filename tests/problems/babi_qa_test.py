import collections
import io
import os
import subprocess
import tarfile
import types

import numpy as np
import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import babi_files

HPARAMS = types.SimpleNamespace(batch_size=2048, max_length=256)

TRAIN = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary picked up the milk there.
5 What is Mary carrying? \tmilk,football\t4
1 Sandra slept.
2 Where is Sandra? \tkitchen\t1
"""
TEST = """\
1 Sandra slept.
2 Where is Mary? \thallway\t1
"""


def write_archive(folder, subset="en", tasks=babi_files.TASKS, train=TRAIN, name=None, valid=None):
    """Write an archive of bAbI.

    `valid` has the texts of the official validation folder: {"train": …, "valid": …}.
    """
    path = os.path.join(folder, name or "tasks_1-20_v1-2.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        for task in tasks:
            texts = {
                f"{subset}/qa{task}_{babi_files.TASKS[task]}_train.txt": train,
                f"{subset}/qa{task}_{babi_files.TASKS[task]}_test.txt": TEST,
            }
            for mode, text in (valid or {}).items():
                texts[f"{subset.replace('en', 'en-valid')}/qa{task}_{mode}.txt"] = text
            for member, text in texts.items():
                member = f"tasks_1-20_v1-2/{member}"
                info = tarfile.TarInfo(member)
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
    return path


def generate(name, tmp_path):
    problem = problems.get(name)
    counts = problem.generate_data(tmp_path / "data", str(tmp_path))
    return problem, counts


def records(problem, tmp_path, split):
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [example for path in paths for example in tfrecords.read(path)]


def test_babi_problems_are_registered():
    names = [name for name in problems.names() if name.startswith("babi_qa_")]
    assert len(names) == 274
    assert "babi_qa_concat_all_tasks_1k" in names
    assert "babi_qa_sentence_task20_10k" in names
    assert "babi_qa_sentence_single_task1_10k" in names
    assert "babi_qa_sentence_single_task1_10k_valid" in names


def test_concat_matches_worked_record(tmp_path):
    write_archive(tmp_path)
    problem, counts = generate("babi_qa_concat_task1_1k", tmp_path)
    # Joint training has three questions for each of the 20 tasks.
    assert counts == {"train": 60, "dev": 1}
    assert sorted(os.listdir(tmp_path / "data")) == [
        ".ut_keras-records",
        "babi_qa_en_qa1_single-supporting-fact-dev-00000-of-00001",
        "babi_qa_en_qa1_single-supporting-fact-train-00000-of-00001",
        "vocab.babi_qa_en_qa1_single-supporting-fact.tokens",
    ]
    encoder = problem.feature_encoders(tmp_path / "data")["inputs"]
    assert encoder.decode([0, 1, 2]) == "<pad> <EOS> <EOQ>"
    found = {
        tuple(encoder.decode(record[name]) for name in ("inputs", "context", "targets"))
        for record in records(problem, tmp_path, "train")
    }
    story = "Mary moved to the bathroom . John went to the hallway ."
    assert found == {
        ("Where is Mary ? <EOS>", f"{story} <EOS>", "bathroom"),
        (
            "What is Mary carrying ? <EOS>",
            f"{story} Mary picked up the milk there . <EOS>",
            "milkfootball",
        ),
        ("Where is Sandra ? <EOS>", "Sandra slept . <EOS>", "kitchen"),
    }
    ((features, targets),) = problem.dataset("dev", tmp_path / "data", HPARAMS)
    inputs = encoder.decode(features["inputs"].numpy()[0].tolist())
    assert inputs == "Where is Mary ? <EOS> <EOQ> Sandra slept . <EOS>"
    assert encoder.decode(targets.numpy()[0].tolist()) == "hallway"


def test_sentence_matches_worked_record(tmp_path):
    write_archive(tmp_path)
    problem, counts = generate("babi_qa_sentence_single_task1_1k", tmp_path)
    assert counts == {"train": 3, "dev": 1}
    specs = problem.feature_specs(tmp_path / "data")
    assert specs["inputs"].modality == "sentences"
    # The longest sentence is "Mary picked up the milk there .", which has 7 tokens.
    assert specs["inputs"].shape == (4, 7)
    assert specs["targets"].modality == "class_label"
    encoder = problem.feature_encoders(tmp_path / "data")["inputs"]
    rows = set()
    for features, targets in problem.dataset("train", tmp_path / "data", HPARAMS):
        assert features["inputs"].shape[1:] == (4, 7)
        assert targets.shape[1:] == (1,)
        for row in features["inputs"].numpy():
            rows.add(tuple(encoder.decode(s[s > 0].tolist()) for s in row))
    assert rows == {
        ("Mary moved to the bathroom .", "John went to the hallway .", "", "Where is Mary ?"),
        (
            "Mary moved to the bathroom .",
            "John went to the hallway .",
            "Mary picked up the milk there .",
            "What is Mary carrying ?",
        ),
        ("Sandra slept .", "", "", "Where is Sandra ?"),
    }


TRIMMED = types.SimpleNamespace(
    batch_size=12, max_length=256, trim_stories=True, min_length_bucket=3, length_bucket_step=1.5
)


def test_trimmed_stories_have_no_empty_row(tmp_path):
    write_archive(tmp_path)
    problem, _ = generate("babi_qa_sentence_all_tasks_1k", tmp_path)
    real, sizes = collections.Counter(), set()
    for features, targets in problem.dataset("train", tmp_path / "data", TRIMMED):
        rows = features["inputs"].numpy()
        sizes.add(rows.shape[:2])
        assert targets.shape == (len(rows), 1)
        lengths = rows.any(axis=2).sum(axis=1)
        assert lengths.max() == rows.shape[1]
        for story, length in zip(rows, lengths, strict=True):
            assert story[:length].any(axis=1).all() and not story[length:].any()
            real[story[:length].tobytes()] += 1
    # The boundaries of the buckets are 3, 4 and 6 rows. The limit of a batch is 12 rows.
    assert sizes == {(4, 2), (3, 3), (2, 3), (2, 4)}
    padded = collections.Counter()
    for record in records(problem, tmp_path, "train"):
        rows = np.reshape(record["inputs"], (4, 7)).astype("int32")
        padded[rows[rows.any(axis=1)].tobytes()] += 1
    assert real == padded


def test_single_trains_on_one_task(tmp_path):
    write_archive(tmp_path, subset="en-10k")
    joint, counts = generate("babi_qa_sentence_task2_10k", tmp_path)
    assert counts == {"train": 60, "dev": 1}
    single, counts = generate("babi_qa_sentence_single_task2_10k", tmp_path)
    assert counts == {"train": 3, "dev": 1}
    everything, counts = generate("babi_qa_sentence_all_tasks_10k", tmp_path)
    assert counts == {"train": 60, "dev": 20}
    assert len({joint.filename, single.filename, everything.filename}) == 3


@pytest.mark.parametrize(("task", "kept"), [(2, 70), (3, 130)])
def test_story_keeps_the_last_sentences(tmp_path, task, kept):
    story = [f"{i} Word{i} ." for i in range(1, 201)]
    write_archive(tmp_path, train="\n".join([*story, "201 Who ?\tWord1\t1\n"]))
    problem, _ = generate(f"babi_qa_sentence_single_task{task}_1k", tmp_path)
    assert problem.feature_specs(tmp_path / "data")["inputs"].shape == (kept + 1, 4)
    encoder = problem.feature_encoders(tmp_path / "data")["inputs"]
    (record,) = records(problem, tmp_path, "train")
    rows = np.reshape(record["inputs"], [kept + 1, 4]).tolist()
    assert encoder.decode(rows[0]) == f"Word{201 - kept} . <pad> <pad>"
    assert encoder.decode(rows[-2]) == "Word200 . <pad> <pad>"
    assert encoder.decode(rows[-1]) == "Who ? <pad> <pad>"


def test_permuted_stories_keep_the_answer(tmp_path):
    """The answer is the color of another animal of the same kind as the named animal."""
    story = (
        "1 Lily is a frog.\n2 Brian is a frog.\n3 Lily is green.\n4 Greg is a swan.\n"
        "5 Greg is white.\n6 Julius is a lion.\n7 Julius is yellow.\n8 Bernhard is a rhino.\n"
        "9 Bernhard is gray.\n10 What color is Brian?\tgreen\t1 2 3\n"
    )
    valid = {"train": story, "valid": story}
    write_archive(tmp_path, "en-10k", tasks=[16], train=story, valid=valid)
    problem, counts = generate("babi_qa_sentence_single_task16_10k_permuted_valid", tmp_path)
    assert counts == {"train": problem.copies, "dev": 1, "test": 1}
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    _, words = problem.feature_specs(str(tmp_path / "data"))["inputs"].shape
    answers = set()
    for record in records(problem, tmp_path, "train"):
        row = np.reshape(record["inputs"], [-1, words])
        lily, brian, color, greg, white, *_, asked = (encoder.decode(ids).split() for ids in row)
        [answer] = encoder.decode(record["targets"]).split()
        assert lily[-2] == brian[-2] != greg[-2] and {lily[-2], greg[-2]} <= {
            *("frog", "lion", "rhino", "swan")
        }
        assert lily[0] == color[0] and brian[0] in asked and greg[0] == white[0]
        assert answer == color[2] != white[2]
        answers.add(answer)
    assert answers == {"gray", "green", "white", "yellow"}
    [dev] = records(problem, tmp_path, "dev")
    assert encoder.decode(dev["targets"]) == "green"


def test_permuted_stories_use_the_words_of_the_task(tmp_path):
    story = "1 Mary got the milk.\n2 John went to the park.\n3 Where is John?\tpark\t2\n"
    valid = {"train": story, "valid": story}
    write_archive(tmp_path, tasks=[2], train=story, valid=valid)
    problem, _ = generate("babi_qa_sentence_single_task2_1k_permuted_valid", tmp_path)
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    read = [encoder.decode(record["inputs"]) for record in records(problem, tmp_path, "train")]
    texts = {" ".join(text.replace("<pad>", "").split()) for text in read}
    assert texts == {
        f"{one} got the milk . {other} went to the park . Where is {other} ?"
        for one, other in (("Mary", "John"), ("John", "Mary"))
    }


def test_permuted_stories_exchange_no_words_that_would_contradict_the_answer(tmp_path):
    """A pronoun agrees with the name, and an answer that is a list agrees with the story."""
    stories = {
        8: "1 John got the milk.\n2 John got the apple.\n"
        "3 What is John carrying?\tmilk,apple\t1 2\n",
        11: "1 Mary went home.\n2 Then she left.\n3 John went home.\n4 Where is Mary?\thome\t1 2\n",
        20: "1 Sumit went to the kitchen.\n2 Sumit is bored.\n3 Where will sumit go?\tgarden\t2\n",
    }
    for task, story in stories.items():
        folder = tmp_path / str(task)
        folder.mkdir()
        write_archive(folder, tasks=[task], train=story, valid={"train": story, "valid": story})
        problem, counts = generate(f"babi_qa_sentence_single_task{task}_1k_permuted_valid", folder)
        assert counts["train"] == problem.copies
        encoder = problem.feature_encoders(str(folder / "data"))["inputs"]
        original = records(problem, folder, "dev")[0]
        for record in records(problem, folder, "train"):
            assert record == original, encoder.decode(record["inputs"])


def test_permuted_stories_of_all_tasks_equal_those_of_each_task(tmp_path):
    write_archive(tmp_path, valid={"train": TRAIN, "valid": TRAIN})
    joint, counts = generate("babi_qa_sentence_all_tasks_1k_permuted_valid", tmp_path)
    assert counts == {"train": 20 * 3 * joint.copies, "dev": 60, "test": 20}
    in_joint = collections.defaultdict(collections.Counter)
    for record in records(joint, tmp_path, "train"):
        in_joint[record["task"][0]][_text(joint, tmp_path, record)] += 1
    for task in (2, 8, 20):  # other words are exchanged in each of them
        single, _ = generate(f"babi_qa_sentence_single_task{task}_1k_permuted_valid", tmp_path)
        read = records(single, tmp_path, "train")
        assert collections.Counter(_text(single, tmp_path, r) for r in read) == in_joint[task]
    assert len(in_joint[20]) < len(in_joint[2])


def _text(problem, tmp_path, record):
    """Return the words of the story, the question and the answer, without padding."""
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    return encoder.decode([i for i in [*record["inputs"], *record["targets"]] if i])


def test_only_line_feed_ends_a_line():
    text = "1 Mary\x85went\u2028 home\x1c.\r\n2 Where is Mary?\thome\t1\n"
    [[(sentences, question, answer)]] = babi_files._parse("qa1", text)
    assert (sentences, question, answer) == (("Mary went home .",), "Where is Mary ?", "home")
    assert babi_files._parse("qa1", "") == []


def test_files_are_read_from_several_archives(tmp_path):
    write_archive(tmp_path, tasks=[1], name="a_tasks_1-20_v1-2.tar.gz")
    others = [task for task in babi_files.TASKS if task != 1]
    write_archive(tmp_path, tasks=others, name="tasks_1-20_v1-2.rest.tar.gz")
    assert generate("babi_qa_concat_all_tasks_1k", tmp_path)[1] == {"train": 60, "dev": 20}


def test_files_are_read_from_unpacked_folder(tmp_path):
    subprocess.run(["tar", "-xf", write_archive(tmp_path), "-C", tmp_path], check=True)
    os.remove(tmp_path / "tasks_1-20_v1-2.tar.gz")
    assert generate("babi_qa_sentence_single_task7_1k", tmp_path)[1] == {"train": 3, "dev": 1}


@pytest.mark.parametrize("is_unpacked", [False, True])
def test_carriage_returns_are_removed_as_in_t2t(tmp_path, is_unpacked):
    """TensorFlow, with which T2T reads lines, removes all carriage returns."""
    text = TRAIN.replace("\n", "\r\n").replace("John", "Jo\rhn")
    path = write_archive(tmp_path, tasks=[1], train=text)
    if is_unpacked:
        subprocess.run(["tar", "-xzf", path, "-C", tmp_path], check=True)
        os.remove(path)
    first, second, third = babi_files.read_examples(str(tmp_path), "en", [1], "train")
    assert first.story == ("Mary moved to the bathroom .", "John went to the hallway .")
    assert (second.question, second.answer) == ("What is Mary carrying ?", "milkfootball")
    assert third.story == ("Sandra slept .",)


def test_changed_files_are_read_again(tmp_path):
    """A notebook may correct the files and generate the data again in the same process."""
    write_archive(tmp_path)
    read = lambda: babi_files.read_examples(str(tmp_path), "en", (1,), "train")  # noqa: E731
    assert [example.answer for example in read()] == ["bathroom", "milkfootball", "kitchen"]
    write_archive(tmp_path, train=TRAIN.replace("bathroom\t", "garden\t"))
    assert read()[0].answer == "garden"


def test_other_stories_keep_the_lengths_of_existing_records(tmp_path):
    write_archive(tmp_path)
    name = "babi_qa_sentence_single_task1_1k"
    problem, _ = generate(name, tmp_path)
    metadata = tmp_path / "data" / problem.metadata_filename
    former = metadata.read_bytes()
    os.remove(tfrecords.find(tmp_path / "data", problem.filename, "dev")[0])
    os.remove(tmp_path / "data" / problem.vocab_filename)
    write_archive(
        tmp_path, train=TRAIN.replace("Sandra slept", "Sandra slept for more than eight hours")
    )
    message = (
        "meta_data.json must be .*'max_sentence_length': 8.* Received: .*'max_sentence_length': 7"
    )
    with pytest.raises(DataError, match=message):
        generate(name, tmp_path)
    assert metadata.read_bytes() == former
    assert not (tmp_path / "data" / problem.vocab_filename).exists()


def assert_data_error(pattern, name, tmp_path):
    with pytest.raises(DataError, match=pattern) as error:
        generate(name, tmp_path)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "data").glob("*"))


def test_missing_file_is_named(tmp_path):
    name = "babi_qa_sentence_task1_1k"
    path = write_archive(tmp_path, tasks=[1, 2])
    pattern = f"en/qa3_three-supporting-facts_train.txt.*none in {path}.*Download http.*"
    assert_data_error(pattern, name, tmp_path)


def test_missing_archive_is_downloaded(tmp_path, monkeypatch):
    def fetch(tmp_dir, raw_file):
        assert raw_file.name == "tasks_1-20_v1-2.tar.gz"
        write_archive(tmp_dir)

    monkeypatch.setattr(download, "fetch", fetch)
    assert generate("babi_qa_sentence_single_task1_1k", tmp_path)[1] == {"train": 3, "dev": 1}


def test_damaged_archive_is_named(tmp_path):
    path = write_archive(tmp_path)
    with open(path, "r+b") as file:
        file.truncate(400)
    assert_data_error(f"{path} must be a complete", "babi_qa_concat_task1_1k", tmp_path)
    write_archive(tmp_path, train=TRAIN + "no number\n")
    name = "babi_qa_sentence_single_task1_1k"
    assert_data_error("A line of bAbI must be.*qa1_.*_train.txt, line 8", name, tmp_path)


# The tests below are about validation splits.


def test_valid_problem_uses_official_split(tmp_path):
    first, second = TRAIN.split("1 Sandra")
    parts = {"train": first, "valid": f"1 Sandra{second}"}
    write_archive(tmp_path, subset="en-10k", valid=parts)
    problem, counts = generate("babi_qa_sentence_task2_10k_valid", tmp_path)
    assert counts == {"train": 40, "dev": 1, "test": 1}
    other, counts = generate("babi_qa_sentence_task2_10k", tmp_path)
    assert counts == {"train": 60, "dev": 1}
    data = tmp_path / "data"
    for path in (problem.vocab_filename, problem.metadata_filename):
        unsplit = path.replace("_valid", "")
        assert (data / path).read_text() == (data / unsplit).read_text()
    [dev] = records(problem, tmp_path, "dev")
    encoder = problem.feature_encoders(data)["targets"]
    assert encoder.decode(dev["targets"]) == "kitchen"
    assert records(problem, tmp_path, "test") == records(other, tmp_path, "dev")


def test_validation_split_without_official_files(tmp_path, capsys):
    stories = [f"1 Word{i}.\n2 Who?\tWord{i}\t1\n3 So?\tWord{i}\t1\n" for i in range(1, 21)]
    write_archive(tmp_path, train="".join(stories))
    problem, counts = generate("babi_qa_concat_task7_1k_valid", tmp_path)
    assert counts == {"train": 20 * 36, "dev": 4, "test": 1}
    assert "no en-valid, using every 10th story" in capsys.readouterr().out
    encoder = problem.feature_encoders(tmp_path / "data")["targets"]
    answers = {
        split: {encoder.decode(record["targets"]) for record in records(problem, tmp_path, split)}
        for split in ("train", "dev")
    }
    assert answers["dev"] == {"Word10", "Word20"}
    assert len(answers["train"]) == 18
    assert not answers["train"] & answers["dev"]


# The tests below are about the errors per task, as in the table of the paper.


def evaluate(problem, data_dir, wrong_tasks):
    """Return the results of a model that gives wrong answers for the given tasks only."""
    sums = {}
    metrics = problem.feature_metrics(data_dir)
    size = problem.feature_specs(data_dir)["targets"].vocab_size
    for features, targets in problem.dataset("dev", data_dir, HPARAMS):
        is_wrong = np.isin(features["task"].numpy()[:, 0], list(wrong_tasks))
        predicted = (targets.numpy()[:, 0] + is_wrong) % size
        logits = np.eye(size, dtype=np.float32)[predicted]
        for name, metric in metrics.items():
            pair = np.array([float(x) for x in metric.function(logits, targets, features)])
            sums[name] = sums.get(name, 0) + pair
    results = {name: total / count for name, (total, count) in sums.items() if count}
    return {**results, **problem.summarize(results)}


@pytest.mark.parametrize("form", [pytest.param("concat", marks=pytest.mark.slow), "sentence"])
def test_feature_metrics_give_error_per_task(tmp_path, form):
    write_archive(tmp_path)
    problem, _ = generate(f"babi_qa_{form}_all_tasks_1k", tmp_path)
    results = evaluate(problem, tmp_path / "data", {3, 19})
    assert {name: value for name, value in results.items() if value} == {
        "error/task_3": 1.0,
        "error/task_19": 1.0,
        "mean_error": 0.1,
        "failed_tasks": 2.0,
    }
    assert len(results) == 22


def test_feature_metrics_give_error_of_one_task():
    assert list(problems.get("babi_qa_sentence_task3_1k").feature_metrics(None)) == ["error/task_3"]


def test_error_of_five_percent_is_not_a_failure():
    problem = problems.get("babi_qa_concat_all_tasks_1k")
    errors = {"error/task_1": 0.05, "error/task_2": 0.051, "accuracy": 0.9}
    summary = problem.summarize(errors)
    assert summary == {"mean_error": pytest.approx(0.0505), "failed_tasks": 1.0}


def test_records_without_task_can_be_read(tmp_path):
    """Records of T2T and of the first version of ut_keras have no task."""
    write_archive(tmp_path)
    problem, _ = generate("babi_qa_concat_all_tasks_1k", tmp_path)
    [path] = tfrecords.find(tmp_path / "data", problem.filename, "dev")
    found = list(tfrecords.read(path))
    for record in found:
        assert 1 <= record.pop("task")[0] <= 20
    tfrecords.write(found, [path])
    assert evaluate(problem, tmp_path / "data", {3}) == {}


def test_validation_split_of_real_data(shared_dir):
    folder = os.path.join(shared_dir, "data", "babi")
    where = (folder, "en-valid", tuple(babi_files.TASKS))
    train, valid = (babi_files.read_examples(*where, mode) for mode in ("train", "valid"))
    assert (len(train), len(valid)) == (18_013, 1_987)
    everything = babi_files.read_examples(folder, "en", tuple(babi_files.TASKS), "train")
    parts, whole = (
        # The last element of an example is its index in the file.
        collections.Counter(example[:-1] for example in examples)
        for examples in (train + valid, everything)
    )
    assert parts == whole


def test_vocabulary_of_real_data(shared_dir, tmp_path):
    problem = problems.get("babi_qa_sentence_single_task1_10k")
    counts = problem.generate_data(tmp_path, os.path.join(shared_dir, "data", "babi"))
    assert counts == {"train": 10_000, "dev": 1_000}
    specs = problem.feature_specs(tmp_path)
    assert specs["inputs"].shape == (11, 7)
    assert specs["inputs"].vocab_size == specs["targets"].vocab_size == 23
    encoder = problem.feature_encoders(tmp_path)["targets"]
    answers = collections.Counter()
    [path] = tfrecords.find(tmp_path, problem.filename, "dev")
    for record in tfrecords.read(path):
        answers.update([encoder.decode(record["targets"])])
    assert sorted(answers) == ["bathroom", "bedroom", "garden", "hallway", "kitchen", "office"]


def test_all_tasks_of_real_data(shared_dir):
    folder = os.path.join(shared_dir, "data", "babi")
    train = babi_files.read_examples(folder, "en", babi_files.TASKS, "train")
    test = babi_files.read_examples(folder, "en", babi_files.TASKS, "test")
    assert len(train) == len(test) == 20_000
    words = {
        word
        for example in train + test
        for text in (*example.story, example.question, example.answer)
        for word in text.split()
    }
    assert len(words) == 192
    assert len({example.answer for example in train + test}) == 58
    assert max(len(example.story) for example in test) == 228
