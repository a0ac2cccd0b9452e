r"""SCAN: translate commands to sequences of actions (Lake & Baroni 2018).

All problems have the same vocabulary file, `vocab.scan.tokens`, with all 13 words and 6 actions. A
record:

    inputs    jump around right after walk twice                [5, 10, 8, 14, 2, 11, 1]
    targets   I_WALK I_WALK I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP
              I_TURN_RIGHT I_JUMP                 [15, 15, 20, 18, 20, 18, 20, 18, 20, 18, 1]

The commands are generated from the grammar below. The problems differ in their splits:

    problem                           train    test   only the test split has
    scan_simple                      16,728   4,182   nothing: the split is random
    scan_simple_p{1,2,4,8,16,32,64}                   nothing: this percentage is for training
    scan_length                      16,990   3,920   more than 22 actions
    scan_length_cutoff26             18,286   2,624   more than 26 actions
    scan_addprim_jump                14,670   7,706   "jump" with other words
    scan_addprim_turn_left           21,890   1,208   "turn left" with other words
    scan_template_right              15,225   4,476   "jump right", "run right", …
    scan_template_opposite_right     15,225   4,476   "jump opposite right", …
    scan_template_around_right       15,225   4,476   "jump around right", …
    scan_filler_num{0,1,2,3}         15,225 … 18,528 / 1,173   "jump around right"; training has
                                                      0, 1, 2, 3 other verbs with it
    scan_template_jump_around_right  18,528   1,173   the same as scan_filler_num3

The train split of `scan_addprim_jump` has 13,203 commands and 1,467 copies of the primitive alone.
For `scan_addprim_turn_left` the numbers are 19,701 and 2,189.

SCAN has no validation split, so there is no dev split, and evaluations use the test split. To
select a model or hparams, use `<name>_valid`. Its dev split is a random tenth of the train
examples, and its train split has only the other examples. Its test split is the same
(`--eval_use_test_set`).

The score is exact match without teacher forcing, `decode/accuracy_per_sequence`:

    python trainer.py --problem=scan_length --schedule=train_eval_and_decode \
      --decode_hparams=beam_size=1,extra_length=50 …

`scan_length_cutoff26` is the length split for which Csordás et al. 2021 ("The Devil is in the
Detail") report 100 %. Commands with 24 to 26 actions are in its train split; in `scan_length`, they
are in the test split. Like `scan_length_cutoff26_valid`, the publication trains on nine tenths of
the train split, but with another random sample.

All splits except the random ones have the examples of the authors' files. `simple` and `simple_pN`
have the same size as the authors' files but another fixed random sample. Two things are missing,
because no rule describes their examples:

- the splits mcd1 to mcd3 (Keysers et al. 2020), which are lists of line numbers;
- the few random examples that the authors add to the train split of addprim_jump.
"""

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ut_keras.problems import problem, text_problems
from ut_keras.problems.problem import Texts

VERBS = ("walk", "look", "run", "jump")
DIRECTIONS = ("left", "right")
WORDS = (*VERBS, "turn", *DIRECTIONS, "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")


class Command(NamedTuple):
    """A command and its meaning."""

    phrases: tuple[str, ...]  # one or two phrases, on which most splits depend
    text: str  # words separated by spaces
    actions: tuple[str, ...]


# A function that takes all commands and returns (train, test).
Split: TypeAlias = Callable[[list[Command]], tuple[list[Command], list[Command]]]


def commands() -> list[Command]:
    """Return the list of all 20,910 commands, always in the same order.

    The grammar (Lake & Baroni 2018, supplement):

        command  = sentence | sentence "and" sentence | sentence "after" sentence
        sentence = phrase | phrase "twice" | phrase "thrice"
        phrase   = verb | (verb | "turn") direction
                 | (verb | "turn") ("opposite" | "around") direction

    "X after Y" means Y and then X. "VERB left" means to turn and then act. "VERB opposite left"
    means to turn twice and then act. "VERB around left" means to turn and act four times.
    """
    sentences = [
        Command((phrase,), text, actions * times)
        for phrase, actions in _phrases().items()
        for text, times in ((phrase, 1), (f"{phrase} twice", 2), (f"{phrase} thrice", 3))
    ]
    found = list(sentences)
    for x, y in itertools.product(sentences, repeat=2):
        phrases = x.phrases + y.phrases
        found.append(Command(phrases, f"{x.text} and {y.text}", x.actions + y.actions))
        found.append(Command(phrases, f"{x.text} after {y.text}", y.actions + x.actions))
    return found


def _phrases():
    """Return the phrases as a dict from phrase to its actions."""
    meaning: dict[str, tuple[str, ...]] = {verb: (f"I_{verb.upper()}",) for verb in VERBS}
    found = dict(meaning)
    for direction in DIRECTIONS:
        turn = (f"I_TURN_{direction.upper()}",)
        for verb in ("turn", *VERBS):
            act = meaning.get(verb, ())  # "turn" has no other action than the turn itself
            found[f"{verb} {direction}"] = turn + act
            found[f"{verb} opposite {direction}"] = turn * 2 + act
            found[f"{verb} around {direction}"] = (turn + act) * 4
    return found


# Functions that return splits.


def by_length(longest: int) -> Split:
    """Return a split with at most `longest` actions in train, and more in test.

    The test split has up to 48 actions.
    """
    return lambda found: _partition(found, lambda command: len(command.actions) > longest)


def at_random(percent: int, seed: str) -> Split:
    """Return a random split with `percent` of the commands in train."""

    def split(found):
        shuffled = random.Random(seed).sample(found, len(found))
        size = round(len(found) * percent / 100)
        return shuffled[:size], shuffled[size:]

    return split


def add_primitive(primitive: str) -> Split:
    """Return a split whose test examples combine one phrase with others.

    In train, this phrase occurs only alone. It is repeated, so that a tenth of the train examples
    consists of this phrase.
    """

    def contains_primitive(command):
        # For example, "jump left" contains "jump", but "turn around left" does not contain "turn
        # left".
        return any(f"{phrase} ".startswith(f"{primitive} ") for phrase in command.phrases)

    def split(found):
        train, test = _partition(found, contains_primitive)
        alone = next(command for command in test if command.text == primitive)
        test.remove(alone)
        return train + [alone] * round(len(train) / 9), test

    return split


def template(
    ending: str, test_verbs: tuple[str, ...] = VERBS, train_verbs: tuple[str, ...] = ()
) -> Split:
    """Return a split that tests on "VERB ENDING" for some verbs.

    Commands with "turn ENDING" are in neither train nor test.

    Args:
        ending: str. The words after the verb, such as "around right".
        test_verbs: tuple of str. The verbs in test.
        train_verbs: tuple of str. The verbs that occur with this ending in train.
    """
    held_out = {f"{verb} {ending}" for verb in ("turn", *VERBS) if verb not in train_verbs}
    tested = {f"{verb} {ending}" for verb in test_verbs}

    def is_tested(command):
        return f"turn {ending}" not in command.phrases and tested.intersection(command.phrases)

    def split(found):
        train, rest = _partition(found, lambda command: held_out.intersection(command.phrases))
        return train, list(filter(is_tested, rest))

    return split


def _partition(found, is_test):
    return list(itertools.filterfalse(is_test, found)), list(filter(is_test, found))


# Dict from the part of a problem's name after "scan_" to its split.
_SPLITS = {
    "simple": at_random(80, seed="scan_simple"),
    "length": by_length(22),
    "length_cutoff26": by_length(26),
    "addprim_jump": add_primitive("jump"),
    "addprim_turn_left": add_primitive("turn left"),
    "template_right": template("right"),
    "template_opposite_right": template("opposite right"),
    "template_around_right": template("around right"),
    "template_jump_around_right": template("around right", ("jump",), ("look", "walk", "run")),
}
_SPLITS |= {
    f"simple_p{percent}": at_random(percent, f"scan_simple_p{percent}")
    for percent in (1, 2, 4, 8, 16, 32, 64)
}
_SPLITS |= {
    f"filler_num{number}": template("around right", ("jump",), ("look", "walk", "run")[:number])
    for number in range(4)
}


class ScanProblem(text_problems.WordsProblem):
    """A task to translate commands to actions, with a split from `_SPLITS`.

    If there is a dev split, it is a tenth of the train examples.
    """

    num_train_shards = 1
    paper = "Lake & Baroni 2018"
    licence = "generated from the published grammar; the authors' files are BSD"
    vocab_filename = "vocab.scan.tokens"
    division: Split

    def words(self, tmp_dir: str | None) -> list[str]:
        return [*WORDS, *ACTIONS]

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        train, test = self.division(commands())
        parts = {"train": train, "test": test}
        if "dev" in self.splits:
            hold_out = at_random(90, seed=f"{self.name} dev")
            parts["train"], parts["dev"] = hold_out(train)
        for command in parts[split]:
            yield {"inputs": command.text, "targets": " ".join(command.actions)}


for _division, _split in _SPLITS.items():
    for _end, _splits in (("", ("train", "test")), ("_valid", ("train", "dev", "test"))):
        problem.declare(
            f"scan_{_division}{_end}", ScanProblem, division=staticmethod(_split), splits=_splits
        )
