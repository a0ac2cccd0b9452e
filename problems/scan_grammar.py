"""SCAN's language: 20,910 commands and what they mean, and the splits that its authors made.

    jump opposite left after walk around left twice
    -> I_TURN_LEFT I_WALK (8 times), then I_TURN_LEFT I_TURN_LEFT I_JUMP

The grammar (Lake & Baroni 2018, supplement):

    command  = sentence | sentence "and" sentence | sentence "after" sentence
    sentence = phrase | phrase "twice" | phrase "thrice"
    phrase   = verb | (verb | "turn") direction | (verb | "turn") ("opposite" | "around") direction

"X after Y" does Y first. "verb left" turns, then acts; "opposite" turns twice, then acts; "around"
turns and acts four times.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

VERBS = ("walk", "look", "run", "jump")
DIRECTIONS = ("left", "right")
WORDS = (*VERBS, "turn", *DIRECTIONS, "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")


class Command(NamedTuple):
    """A command and its meaning.

    Fields:
        phrases: tuple of str, one or two phrases: what the splits are made by.
        text: str, words with spaces between them.
        actions: tuple of str.
    """

    phrases: tuple[str, ...]
    text: str
    actions: tuple[str, ...]


# From all commands to (train, test).
Split = Callable[[list[Command]], tuple[list[Command], list[Command]]]


def commands() -> list[Command]:
    """Returns the list of all commands, always in the same order."""
    sentences = [
        Command((phrase,), text, actions * times)
        for phrase, actions in _phrases().items()
        for text, times in ((phrase, 1), (f"{phrase} twice", 2), (f"{phrase} thrice", 3))
    ]
    found = list(sentences)
    for x in sentences:
        for y in sentences:
            phrases = x.phrases + y.phrases
            found.append(Command(phrases, f"{x.text} and {y.text}", x.actions + y.actions))
            found.append(Command(phrases, f"{x.text} after {y.text}", y.actions + x.actions))
    return found


def _phrases():
    """{phrase: its actions}."""
    meaning: dict[str, tuple[str, ...]] = {verb: (f"I_{verb.upper()}",) for verb in VERBS}
    found = dict(meaning)
    for direction in DIRECTIONS:
        turn = (f"I_TURN_{direction.upper()}",)
        for verb in ("turn", *VERBS):
            act = meaning.get(verb, ())  # "turn" does nothing after turning.
            found[f"{verb} {direction}"] = turn + act
            found[f"{verb} opposite {direction}"] = turn * 2 + act
            found[f"{verb} around {direction}"] = (turn + act) * 4
    return found


# The splits.


def by_length(longest: int) -> Split:
    """Returns a split that trains on up to so many actions and tests on more, up to 48."""

    def split(found):
        return _parted(found, lambda command: len(command.actions) > longest)

    return split


def at_random(percent: int, seed: str) -> Split:
    """Returns a split that trains on so many percent of the commands."""

    def split(found):
        shuffled = random.Random(seed).sample(found, len(found))
        size = round(len(found) * percent / 100)
        return shuffled[:size], shuffled[size:]

    return split


def add_primitive(primitive: str) -> Split:
    """Returns a split that trains on a phrase only by itself, and tests what is made of it.

    The phrase alone is a tenth of the training examples, so it is there many times.
    """

    def is_made_of_it(command):
        # "jump" is in "jump left" too; "turn left" is not in "turn around left".
        return any(f"{phrase} ".startswith(f"{primitive} ") for phrase in command.phrases)

    def split(found):
        train, test = _parted(found, is_made_of_it)
        alone = next(command for command in test if command.text == primitive)
        test.remove(alone)
        return train + [alone] * round(len(train) / 9), test

    return split


def template(ending: str) -> Split:
    """Returns a split that tests on "VERB ENDING", of which training shows no verb at all.

    Commands with "turn ENDING" are in neither of the two.
    """
    return _held_out_phrases(ending, test_verbs=VERBS, train_verbs=())


def filler(num_verbs: int) -> Split:
    """Returns a split that tests on "jump around right" and trains on so many other verbs there."""
    return _held_out_phrases(
        "around right", test_verbs=("jump",), train_verbs=("look", "walk", "run")[:num_verbs]
    )


def _held_out_phrases(ending, test_verbs, train_verbs):
    held_out = {f"{verb} {ending}" for verb in ("turn", *VERBS) if verb not in train_verbs}
    tested = {f"{verb} {ending}" for verb in test_verbs}
    never = {f"turn {ending}"}

    def split(found):
        train, rest = _parted(found, lambda command: held_out.intersection(command.phrases))
        test = [
            command
            for command in rest
            if tested.intersection(command.phrases) and not never.intersection(command.phrases)
        ]
        return train, test

    return split


def _parted(found, is_test):
    train: list[Command] = []
    test: list[Command] = []
    for command in found:
        (test if is_test(command) else train).append(command)
    return train, test
