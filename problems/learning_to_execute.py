"""Learning to Execute: read a short program, write what it computes, character by character.

A record of `lte_program`, whose literals have five digits:

    inputs   "x=(x=19156for[2]x+=41544)for[2]x+=17747"    bytes + 2, EOS (1) last
    targets  "137738"                                     [51, 53, 57, 57, 53, 58, 1]

and of the others (x=afor[n]x+=b: start at a, n times add b; aifb<celsed: a if b < c, else d):

    lte_control           619if319>138else188                       "619"
    lte_addition          (19494+80239)+57931                       "157664"
    lte_algebra           (12-34)*56                                "768", for -1232 is modulo 1000
    lte_algebra_control   (4-2)if3<6else8                           "2"
    lte_copy              1203                                      "1203"
    lte_double            1203                                      "12031203"
    lte_reverse           1203                                      "3021"
    lte_program_zaremba   j=85#for x in range(3):j+=92#print((j-7)) "354", negative too, not cut

The first five and the memory tasks are those of Sonnet 1's generator, which has the task names and
the limits of the Universal Transformer paper (tables 5 and 6): literals of up to 5 digits and up
to 2 operations; memory tasks up to 55 digits. The paper does not say which generator it used, nor
its op sets; "program" is taken for all five: + - * if for. The answer is the value modulo
10^(digits + 1), so a negative one wraps. The last is Zaremba & Sutskever's own (2015), in Python.

There is no curriculum. Train and dev are drawn by the mix strategy: the number of digits and of
operations of a sample are uniform in 1..limit, each by itself. Test is drawn at the limits, as
Sonnet does; the paper does not say which it reports, so report both. `lte_program_zaremba` has no
fixed length, its test is mixed too. 1,000,000 train, 2,000 dev, 10,000 test.

The splits share no inputs: a checksum of the inputs says to which of them a sample may belong (one
tenth each to dev and test), any other is drawn anew. So a fifth of the shortest inputs, of which
there are few, never is in training.

Scores are those of free decoding, for nothing of the target is read at test time: the paper's
seq-acc is `decode/accuracy_per_sequence`, its char-acc `decode/accuracy`:

    python trainer.py --problem=lte_copy --schedule=train_eval_and_decode --eval_use_test_set \\
      --decode_hparams=beam_size=1,extra_length=60 …

EOS ends both features and is no character of the scores; Sonnet has none, Zaremba's "@" and "." are
left out for it.
"""

import functools
import random
import zlib

from ut_keras.problems import lte_programs, problem
from ut_keras.problems.problem import Texts
from ut_keras.text import text_encoder

_SIZES = {"train": 1_000_000, "dev": 2_000, "test": 10_000}
_TENTHS = {"train": range(8), "dev": (8,), "test": (9,)}


class LearningToExecute(problem.Problem):
    """Base class; a subclass draws (inputs, targets)."""

    splits: tuple[str, ...] = ("train", "dev", "test")
    paper = "Dehghani et al. 2019, table 6"
    licence = "generated"
    max_digits = 5
    max_operations = 2

    def feature_encoders(self, data_dir: str | None = None) -> dict[str, text_encoder.TextEncoder]:
        encoder = text_encoder.ByteTextEncoder()
        return {"inputs": encoder, "targets": encoder}

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        rng = random.Random(seed)
        draw = self.draw_at_limits if split == "test" else self.draw_mixed
        count = 0
        while count < _SIZES[split]:
            inputs, targets = draw(rng)
            if zlib.crc32(inputs.encode()) % 10 in _TENTHS[split]:
                count += 1
                yield {"inputs": inputs, "targets": targets}

    def draw_mixed(self, rng: random.Random) -> tuple[str, str]:
        digits, operations = rng.randint(1, self.max_digits), rng.randint(1, self.max_operations)
        return self.draw(rng, digits, operations)

    def draw_at_limits(self, rng: random.Random) -> tuple[str, str]:
        return self.draw(rng, self.max_digits, self.max_operations)

    def draw(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        """Returns (inputs, targets), two strings.

        Args:
            rng: `random.Random`.
            digits: int. Of each literal.
            operations: int.
        """
        raise NotImplementedError


class Program(LearningToExecute):
    """Sonnet's programs.

    Args:
        ops: tuple of str, one of the sets of lte_programs.py.
    """

    def __init__(self, ops: tuple[str, ...]) -> None:
        self._ops = ops

    def draw(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        text, answer = lte_programs.chain_program(rng, self._ops, digits, operations)
        return text, str(answer)


for _name, _ops in {
    "program": lte_programs.ALL,
    "control": lte_programs.CONTROL,
    "addition": lte_programs.ADDITION,
    "algebra": lte_programs.ALGEBRA,
    "algebra_control": lte_programs.ALGEBRA_CONTROL,
}.items():
    problem.REGISTRY.add(f"lte_{_name}", functools.partial(Program, _ops))


@problem.register("lte_program_zaremba")
class ProgramZaremba(LearningToExecute):
    """Zaremba & Sutskever's programs, in Python."""

    paper = "Zaremba & Sutskever 2015"

    def draw_mixed(self, rng: random.Random) -> tuple[str, str]:
        text, answer = lte_programs.python_program(rng, self.max_digits, self.max_operations)
        return text, str(answer)

    draw_at_limits = draw_mixed


@problem.register("lte_copy")
class Copy(LearningToExecute):
    """Write the digits."""

    paper = "Dehghani et al. 2019, table 5"
    max_digits = 55
    max_operations = 1

    def draw(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        inputs = lte_programs.digits(rng, digits)
        return inputs, self.answer(inputs)

    def answer(self, inputs: str) -> str:
        return inputs


@problem.register("lte_double")
class Double(Copy):
    """Write the digits twice."""

    def answer(self, inputs: str) -> str:
        return inputs * 2


@problem.register("lte_reverse")
class Reverse(Copy):
    """Write the digits from the last to the first."""

    def answer(self, inputs: str) -> str:
        return inputs[::-1]
