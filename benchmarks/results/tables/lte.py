"""This table repeats tables 5 and 6 of the paper, Learning to Execute. The memory tasks have up to
55 digits. The programs have up to two nested operations on numbers of up to 5 digits. As in the
paper, training uses the mix strategy: the number of digits and the number of operations are sampled
uniformly up to these limits. Validation does the same. In the test split, every example has the
maximum number of digits and of operations. The paper does not describe its test split. Decoding is
greedy and ends at EOS.

- **Programs** need many updates with few tokens each. `universal_small_batch` has small batches,
  relative attention and a transition that reads neighboring positions. It solves four times as many
  programs as `universal`, in less time. This setting was chosen among several by its validation
  score of 0.624. The test programs are harder than the validation programs.
- **The Transformer is better on programs.** `transformer_small_batch` uses the same recipe with a
  dense transition and with four layers that have their own weights. It has 0.447 on the test and
  0.689 on validation. The paper reports an advantage of the Universal Transformer, which does not
  appear here.
- **`program_units_first`** is an addition of ut_keras. The paper has no such experiment. The
  programs are the same, but the last digit of every number comes first. With the same recipe, the
  Universal Transformer solves 0.494 of them on the test and 0.735 on validation. It solves many
  more loops, but no more products. The Transformer solves fewer programs than in the usual order:
  0.319 on the test and 0.655 on validation. So the better model depends on the order of the digits.
- **Addition** is solved after 30,000 updates: `universal_small_batch` has 0.995 on the test, and
  `transformer_small_batch` has 0.997. The paper reports 1.0 for both models. The number of updates
  was chosen before the runs.
- **Control** is not solved. After 30,000 updates, `universal_small_batch` has 0.371 on the test and
  0.527 on validation, and `transformer_small_batch` has 0.204 and 0.386. After 70,000 updates, the
  two models are about equal: `universal_small_batch_70k` has 0.379 and 0.633, and
  `transformer_small_batch_70k` has 0.376 and 0.657. The test examples are harder than the
  validation examples. The paper reports 1.0 for the Universal Transformer and 0.66 for the
  Transformer. The numbers of updates were chosen before the runs, but 70,000 was chosen after the
  test results of the shorter runs were known.
- **The LSTM** was still improving on copy when training ended. Its validation score was 0.056 after
  1,000 updates and 0.259 at the end.
- `universal_large_batch` is meant for training on a GPU.
- A run of `double` was paused for 24 of its 49 minutes.

Which programs does `universal_small_batch` solve? This table shows programs with a single operation
and five-digit numbers. The last column is the same recipe on `program_units_first`. The two columns
are for different random programs.

| Operation | Correct of 100 | With the last digit first |
| --- | --- | --- |
| sums | 99 | 100 |
| differences | 96 | 100 |
| choices (`if`) | 100 | 100 |
| loops (`for`, a sum and a product with a small number) | 26 | 79 |
| products | 0 | 0 |

The next table has the same two columns of results. Each column is from 2,000 additional programs,
which were sampled like the test split:

| Programs | Share of all | Correct | With the last digit first |
| --- | --- | --- | --- |
| with a product | 0.36 | 0.06 | 0.05 |
| without a product, with a loop | 0.28 | 0.18 | 0.53 |
| all others | 0.36 | 0.78 | 0.93 |
"""

from results.definitions import Cell, Score, Table

MODELS = {
    "lstm": ("lstm_seq2seq_attention", "lstm_lte"),
    "transformer": ("transformer", "transformer_lte"),
    "universal": ("universal_transformer", "universal_transformer_lte"),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_lte"),
}
PAPER = {  # char-acc, seq-acc
    "copy": {"lstm": "0.78 0.11", "transformer": "0.98 0.63", "universal": "1.0 1.0"},
    "double": {"lstm": "0.51 0.047", "transformer": "0.94 0.55", "universal": "1.0 1.0"},
    "reverse": {"lstm": "0.91 0.32", "transformer": "0.81 0.26", "universal": "1.0 1.0"},
    "program": {"lstm": "0.53 0.12", "transformer": "0.71 0.29", "universal": "0.89 0.63"},
    "control": {"lstm": "0.68 0.21", "transformer": "0.93 0.66", "universal": "1.0 1.0"},
    "addition": {"lstm": "0.83 0.11", "transformer": "1.0 1.0", "universal": "1.0 1.0"},
}
UPDATES = {"copy": 1_500, "program": 16_000}


def _cell(task, name, updates, every=500, ending="", order="", label=""):
    char, _, sequence = ("" if order else PAPER[task].get(name, "")).partition(" ")
    problem = "_".join(filter(None, ("lte", task, order)))
    return Cell(
        name=f"{problem.removeprefix('lte_')}/{name}{ending}{label}",
        problem=problem,
        model=MODELS[name][0],
        hparams_set=MODELS[name][1] + ending,
        updates=updates,
        every=every,
        valid="accuracy_per_sequence",
        scores=(
            Score("decode/accuracy", char, "char-acc"),
            Score("decode/accuracy_per_sequence", sequence, "seq-acc"),
        ),
        decode="beam_size=1,extra_length=60",
    )


TABLE = Table(
    title="Learning to Execute",
    cells=(
        _cell("program", "universal", 70_000, every=1_000, ending="_small_batch"),
        _cell("program", "transformer", 70_000, every=1_000, ending="_small_batch"),
        *(
            _cell("program", name, 70_000, every=1_000, ending="_small_batch", order="units_first")
            for name in ("universal", "transformer")
        ),
        *(
            _cell(task, name, 30_000, every=1_000, ending="_small_batch")
            for task in ("addition", "control")
            for name in ("universal", "transformer")
        ),
        *(
            _cell("control", name, 70_000, every=1_000, ending="_small_batch", label="_70k")
            for name in ("universal", "transformer")
        ),
        _cell("program", "universal", 90_000, every=1_000, ending="_large_batch"),
        *(_cell(task, name, UPDATES.get(task, 4_000)) for task in PAPER for name in MODELS),
    ),
)
