"""SCAN: commands to sequences of actions, by rules that are to be learned (Lake & Baroni 2018).

A record, of any of these; the vocabulary file, `vocab.scan.tokens`, holds all 13 words and 6
actions and is the same for all:

    inputs    jump around right after walk twice                [5, 10, 8, 14, 2, 11, 1]
    targets   I_WALK I_WALK I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP I_TURN_RIGHT I_JUMP
              I_TURN_RIGHT I_JUMP                 [15, 15, 20, 18, 20, 18, 20, 18, 20, 18, 1]

Nothing is downloaded: the grammar is in scan_grammar.py. What differs is what is tested on:

    problem                           train    test   test has, and training has not
    scan_simple                      16,728   4,182   nothing new: commands drawn at random
    scan_simple_p{1,2,4,8,16,32,64}                   the same, trained on so many percent
    scan_length                      16,990   3,920   more than 22 actions
    scan_length_cutoff26             18,286   2,624   more than 26 actions
    scan_addprim_jump                14,670   7,706   "jump" with other words
    scan_addprim_turn_left           21,890   1,208   "turn left" with other words
    scan_template_right              15,225   4,476   "jump right", "run right", …
    scan_template_opposite_right     15,225   4,476   "jump opposite right", …
    scan_template_around_right       15,225   4,476   "jump around right", …
    scan_filler_num{0,1,2,3}         15,225 … 18,528 / 1,173   "jump around right", but that of
                                                      0, 1, 2, 3 of the other verbs
    scan_template_jump_around_right  18,528   1,173   the same as scan_filler_num3

The training examples of addprim are 13,203 (19,701) commands and 1,467 (2,189) times the same one,
the primitive alone. SCAN has no validation split, so there is no "dev": the test split is what is
evaluated. To choose anything, take `<name>_valid`: its dev split is a tenth of the training
examples, drawn at random, which training then lacks; its test split is the same
(`--eval_use_test_set`). The score is exact match of free decoding, `decode/accuracy_per_sequence`:

    python trainer.py --problem=scan_length --schedule=train_eval_and_decode \\
      --decode_hparams=beam_size=1,extra_length=50 …

`scan_length_cutoff26` is the length split on which Csordás et al. 2021 ("The Devil is in the
Detail") report 100 %: outputs of 24 to 26 actions, which `scan_length` tests on, are training here.
They too train on nine tenths of it (`scan_length_cutoff26_valid`), of another draw.

All splits but the random ones have the examples of the authors' files. Those of `simple` and
`simple_pN` are of their size, but of another draw, always the same one. Not here, because no rule
tells their examples: mcd1 to mcd3 (Keysers et al. 2020), which are lists of numbers of lines, and
the few random examples that the authors add to addprim_jump.
"""

import functools
import os

from ut_keras.problems import problem, scan_grammar
from ut_keras.problems.problem import Texts
from ut_keras.text import text_encoder

_VOCAB_FILENAME = "vocab.scan.tokens"


# How the commands are divided, by the name behind "scan_".
_SPLITS = {
    "simple": scan_grammar.at_random(80, seed="scan_simple"),
    "length": scan_grammar.by_length(22),
    "length_cutoff26": scan_grammar.by_length(26),
    "addprim_jump": scan_grammar.add_primitive("jump"),
    "addprim_turn_left": scan_grammar.add_primitive("turn left"),
    "template_right": scan_grammar.template("right"),
    "template_opposite_right": scan_grammar.template("opposite right"),
    "template_around_right": scan_grammar.template("around right"),
    "template_jump_around_right": scan_grammar.filler(3),
}
for _percent in (1, 2, 4, 8, 16, 32, 64):
    _SPLITS[f"simple_p{_percent}"] = scan_grammar.at_random(_percent, f"scan_simple_p{_percent}")
for _num_verbs in range(4):
    _SPLITS[f"filler_num{_num_verbs}"] = scan_grammar.filler(_num_verbs)


class ScanProblem(problem.Problem):
    """Commands to actions.

    Args:
        division: str, a key of `_SPLITS`.
        valid: bool. Hold out a tenth of the training examples, as "dev".
    """

    splits: tuple[str, ...] = ("train", "test")
    num_train_shards = 1
    paper = "Lake & Baroni 2018"
    licence = "generated from the published grammar; the authors' files are BSD"

    def __init__(self, division: str, valid: bool = False) -> None:
        self._division = division
        self._valid = valid
        if valid:
            self.splits = ("train", "dev", "test")

    def side_files(self) -> tuple[str, ...]:
        return (_VOCAB_FILENAME,)

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        encoder = text_encoder.TokenTextEncoder(os.path.join(data_dir or "", _VOCAB_FILENAME))
        return {"inputs": encoder, "targets": encoder}

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        path = os.path.join(data_dir, _VOCAB_FILENAME)
        if not os.path.exists(path):
            tokens = [*scan_grammar.WORDS, *scan_grammar.ACTIONS]
            text_encoder.TokenTextEncoder(tokens=tokens).store_to_file(path)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        train, test = _SPLITS[self._division](scan_grammar.commands())
        parts = {"train": train, "test": test}
        if self._valid:
            hold_out = scan_grammar.at_random(90, seed=f"{self.name} dev")
            parts["train"], parts["dev"] = hold_out(train)
        for command in parts[split]:
            yield {"inputs": command.text, "targets": " ".join(command.actions)}


for _division in _SPLITS:
    for _end in ("", "_valid"):
        problem.REGISTRY.add(
            f"scan_{_division}{_end}", functools.partial(ScanProblem, _division, bool(_end))
        )
