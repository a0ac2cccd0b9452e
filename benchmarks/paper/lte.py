"""Tables 5 and 6, Learning to Execute: memorization of up to 55 digits; programs of nesting 2 and
numbers of 5 digits. The paper's models are trained by the mix strategy, as here; the test split is
drawn at the limits, which the paper does not say of its own. Greedy decoding that ends at EOS.
The LSTM was still learning to copy: of the mix 0.056 after 1,000 updates, 0.259 at the end.
Programs took many updates of few tokens: `universal_small_batch`, with relative attention and a
transition that sees neighbors, answers four times as many as `universal` in less time. It was
chosen among tries by validation, which is of the mix and has 0.624; the test is harder. Asked for
100 programs of one operation on five digits of each kind, it has 99 sums, 96 differences, all
choices (`if`), 26 loops (`for`, a sum with a product by a small number) and no product; of 2,000
more of the test's kind 0.06 of those with a product (0.36 of all), 0.18 of the others with a loop
(0.28), and 0.78 of the rest. The Transformer by the same recipe, with four layers of its own and a
dense transition, has more: 0.447, and 0.689 of validation. That the Universal one is the better is
not seen here.
`universal_large_batch` is for a GPU. `double` stood still for 24 of its 49 minutes.
"""

from tables import Cell, Score, Table

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


def _cell(task, name, updates, every=500, ending=""):
    char, _, sequence = PAPER[task].get(name, "").partition(" ")
    return Cell(
        name=f"{task}/{name}{ending}",
        problem=f"lte_{task}",
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
        _cell("program", "universal", 90_000, every=1_000, ending="_large_batch"),
        *(_cell(task, name, UPDATES.get(task, 4_000)) for task in PAPER for name in MODELS),
    ),
)
