import re
import types

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.problems import scan

HPARAMS = types.SimpleNamespace(batch_size=4096, max_length=256)
SIZES = {
    "scan_addprim_jump": (14_670, 7_706),
    "scan_addprim_turn_left": (21_890, 1_208),
    "scan_filler_num0": (15_225, 1_173),
    "scan_filler_num1": (16_290, 1_173),
    "scan_filler_num2": (17_391, 1_173),
    "scan_filler_num3": (18_528, 1_173),
    "scan_length": (16_990, 3_920),
    "scan_length_cutoff26": (18_286, 2_624),
    "scan_simple": (16_728, 4_182),
    "scan_simple_p1": (209, 20_701),
    "scan_simple_p16": (3_346, 17_564),
    "scan_simple_p2": (418, 20_492),
    "scan_simple_p32": (6_691, 14_219),
    "scan_simple_p4": (836, 20_074),
    "scan_simple_p64": (13_382, 7_528),
    "scan_simple_p8": (1_673, 19_237),
    "scan_template_around_right": (15_225, 4_476),
    "scan_template_jump_around_right": (18_528, 1_173),
    "scan_template_opposite_right": (15_225, 4_476),
    "scan_template_right": (15_225, 4_476),
}
# These are the numbers of characters in the authors' files, which have lines "IN: … OUT: …". The
# data of ut_keras differ from the authors' files only in the order of the lines.
CHARACTERS = {
    ("scan_template_right", "train"): 3_173_282,
    ("scan_template_right", "test"): 729_823,
    ("scan_template_opposite_right", "train"): 2_990_057,
    ("scan_template_opposite_right", "test"): 871_363,
    ("scan_filler_num1", "train"): 2_851_719,
    ("scan_filler_num2", "train"): 3_158_377,
    ("scan_filler_num3", "train"): 3_468_272,
    ("scan_addprim_turn_left", "train"): 3_974_537,
    ("scan_addprim_turn_left", "test"): 173_679,
}


def samples(name, split):
    return list(problems.get(name).generate_samples(split, None, None, seed=0))


def inputs(name, split):
    return [sample["inputs"] for sample in samples(name, split)]


def interpret(text):
    """Interpret a command from its text, independently of the code of ut_keras."""
    for word in (" and ", " after "):
        left, found, right = text.partition(word)
        if found:
            parts = (left, right) if word == " and " else (right, left)
            return [action for part in parts for action in interpret(part)]
    *words, last = text.split()
    if last in ("twice", "thrice"):
        return interpret(" ".join(words)) * {"twice": 2, "thrice": 3}[last]
    words = text.split()
    act = [] if words[0] == "turn" else [f"I_{words[0].upper()}"]
    if len(words) == 1:
        return act
    turn = [f"I_TURN_{words[-1].upper()}"]
    if len(words) == 2:
        return turn + act
    return {"opposite": turn + turn + act, "around": (turn + act) * 4}[words[1]]


def test_commands_have_the_published_actions():
    found = scan.commands()
    assert len({command.text for command in found}) == len(found) == 20_910
    assert max(len(command.actions) for command in found) == 48
    for command in found:
        assert list(command.actions) == interpret(command.text)
    words = {word for command in found for word in (*command.text.split(), *command.actions)}
    assert words == {*scan.WORDS, *scan.ACTIONS}


def test_scan_problems_are_registered():
    names = [*SIZES, *(f"{name}_valid" for name in SIZES)]
    assert [name for name in problems.names() if name.startswith("scan_")] == sorted(names)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_splits_have_published_sizes_without_overlap(name):
    train, test = inputs(name, "train"), inputs(name, "test")
    assert (len(train), len(test)) == SIZES[name]
    assert not set(train) & set(test)
    if "addprim" not in name:
        assert len(set(train)) == len(train)


@pytest.mark.parametrize(("name", "split"), sorted(CHARACTERS))
def test_splits_have_as_many_characters_as_authors_files(name, split):
    lines = [f"IN: {s['inputs']} OUT: {s['targets']}\n" for s in samples(name, split)]
    assert sum(map(len, lines)) == CHARACTERS[name, split]


def test_train_split_lacks_the_tested_commands():
    def has(pattern, name, split):
        return {bool(re.search(pattern, text)) for text in inputs(name, split)}

    train = inputs("scan_addprim_jump", "train")
    assert {text for text in train if "jump" in text} == {"jump"}
    assert train.count("jump") == 1_467
    assert has("jump", "scan_addprim_jump", "test") == {True}
    for name, longest in (("scan_length", 22), ("scan_length_cutoff26", 26)):
        for split, is_longer in (("train", False), ("test", True)):
            lengths = {len(sample["targets"].split()) for sample in samples(name, split)}
            assert {length > longest for length in lengths} == {is_longer}
    train = inputs("scan_addprim_turn_left", "train")
    assert {text for text in train if "turn left" in text} == {"turn left"}
    assert train.count("turn left") == 2_189
    for ending in ("right", "opposite right", "around right"):
        name = f"scan_template_{ending.replace(' ', '_')}"
        assert has(f"(walk|look|run|jump|turn) {ending}", name, "train") == {False}
        assert has(f"(walk|look|run|jump) {ending}", name, "test") == {True}
    assert has("jump around right", "scan_filler_num2", "train") == {False}
    assert has("look around right", "scan_filler_num1", "train") == {True, False}
    assert has("jump around right", "scan_filler_num2", "test") == {True}


def test_valid_problem_holds_out_a_tenth():
    """As in Csordás et al. (2021), dev has the lengths of the train split, but other commands."""
    name = "scan_length_cutoff26"
    train, dev = inputs(f"{name}_valid", "train"), inputs(f"{name}_valid", "dev")
    assert (len(train), len(dev)) == (16_457, 1_829)
    assert sorted(train + dev) == sorted(inputs(name, "train"))
    assert inputs(f"{name}_valid", "test") == inputs(name, "test")


def test_random_splits_do_not_depend_on_the_seed():
    problem = problems.get("scan_simple")
    other = [s["inputs"] for s in problem.generate_samples("train", None, None, seed=7)]
    assert other == inputs("scan_simple", "train")


def test_scan_matches_worked_record(tmp_path):
    problem = problems.get("scan_simple_p1")
    assert problem.generate_data(tmp_path) == {"train": 209, "test": 20_701}
    encoder = problem.feature_encoders(tmp_path)["inputs"]
    assert encoder.vocab_size == 21
    assert encoder.encode("jump around right after walk twice") == [5, 10, 8, 14, 2, 11]
    assert encoder.encode("I_WALK I_TURN_RIGHT I_JUMP") == [15, 20, 18]
    [path] = tfrecords.find(tmp_path, "scan_simple_p1", "train")
    for record in tfrecords.read(path):
        *command, end = record["inputs"]
        actions = encoder.decode(record["targets"])
        assert end == 1
        assert actions.split() == [*interpret(encoder.decode(command)), "<EOS>"]
    assert sum(len(targets) for _, targets in problem.dataset("train", tmp_path, HPARAMS)) == 209
