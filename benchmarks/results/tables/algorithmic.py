"""This table repeats table 4 of the paper. Models are trained on strings of 1 to 40 decimal digits
and tested on exactly 400 symbols. For addition, the 400 symbols are the two numbers and the plus
sign. Char-acc is the share of correct characters, and seq-acc is the share of correct strings.
Decoding is greedy and ends at EOS.

- `coupled` is an addition of ut_keras: corresponding positions of the input and the output have the
  same position signal (`pos=coupled`). We specify which positions correspond. Training samples
  these signals. We chose the way of sampling by results on additional strings of up to 400 symbols.
  These strings are in no split (see [what was tried](tried.md) and the [protocol](#protocol)).
- The other models in the table use the paper's setting. On copy and reverse, the Transformer and
  the Universal Transformer learn strings of the trained lengths, but decode no string of 400
  symbols correctly. On addition, neither of them has learned the trained lengths after 6,000
  updates: 1 % of the sums in the last training batches were correct, with teacher forcing.
- The LSTM decodes no string of 400 symbols correctly. It learns to copy and to reverse strings of
  the trained lengths: in the last training batches, 92 % of the copies and all reversed strings are
  correct, with teacher forcing. Of the test characters, it predicts 0.027 on copy and 0.129 on
  reverse (paper: 0.45 and 0.66). On addition, it has not learned the trained lengths after 6,000
  updates: at most 1 % of the sums in the last training batches are correct. The best validation
  score comes after update 2,000 on copy, and after the last update on reverse and addition.
- The adaptive model learns to copy and to reverse strings of the trained lengths: in the last
  training batches, at least 99 % of the strings are correct, with teacher forcing. It decodes no
  string of 400 symbols correctly. Its char-acc on the test data is 0.102 on copy and 0.006 on
  reverse. The best validation score comes after update 4,000 on both tasks. The run on copy was
  interrupted once.
- Validation uses teacher forcing on strings of 1 to 400 symbols, so some of them are as long as the
  test strings. Only a tenth of these lengths occur in training.
- The Transformer reaches its best validation accuracy on copy after a third of the updates, and on
  reverse and addition after two thirds. The Universal Transformer reaches it on copy after two
  thirds, on reverse after a third, and on addition after two thirds.
- The Neural GPU is trained with a curriculum of lengths, as in the paper. On copy, it reached the
  longest training strings after 1,900 updates. It is the only model without `coupled` that copies
  strings of 400 symbols: 0.903 of them (paper: 1.0), and 0.9999 of the characters. From update
  4,000 to update 6,000, validation still improved, from 0.936 to 0.966 of the strings.
- On reverse and addition, the Neural GPU did not reach the longest training strings. The curriculum
  ended at 27 symbols on reverse and at 11 symbols on addition: fewer than 95 % of the training
  strings of the newest lengths were correct. On reverse, the model predicts 0.860 of the test
  characters, more than all other models without `coupled`, but no complete string. Its best
  validation score comes after update 2,000 (0.893 of the characters), and its last one is 0.623. On
  addition, it predicts 0.059 of the test characters.
- The Transformer's run on copy was paused for 33 of its 56 minutes.
"""

from results.definitions import Cell, Score, Table

PROBLEMS = {"copy": "identity", "reverse": "reverse", "addition": "addition"}
MODELS = {
    "lstm": ("lstm_seq2seq_attention", "lstm_algorithmic"),
    "transformer": ("transformer", "transformer_algorithmic"),
    "universal": ("universal_transformer", "universal_transformer_algorithmic"),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_algorithmic"),
    "neural_gpu": ("neural_gpu", "neural_gpu_algorithmic"),
}
PAPER = {  # char-acc, seq-acc
    "copy": {"lstm": "0.45 0.09", "transformer": "0.53 0.03", "universal": "0.91 0.35"},
    "reverse": {"lstm": "0.66 0.11", "transformer": "0.13 0.06", "universal": "0.96 0.46"},
    "addition": {"lstm": "0.08 0.0", "transformer": "0.07 0.0", "universal": "0.34 0.02"},
}
for _task in PAPER.values():
    _task["neural_gpu"] = "1.0 1.0"
COUPLED = {
    "copy": "universal_transformer_algorithmic_coupled",
    "reverse": "universal_transformer_algorithmic_coupled_reversed",
    "addition": "universal_transformer_algorithmic_coupled_sum",
}


def _cell(task, name):
    cell = f"{task}/{name}"
    char, _, sequence = PAPER[task].get(name, "").partition(" ")
    model, hparams_set = MODELS.get(name) or ("universal_transformer", COUPLED[task])
    return Cell(
        name=cell,
        problem=f"algorithmic_{PROBLEMS[task]}_decimal40",
        model=model,
        hparams_set=hparams_set,
        updates=10_000 if cell == "addition/coupled" else 6_000,
        every=2_000,
        valid="accuracy_per_sequence" if cell == "addition/coupled" else "accuracy",
        # Number of batches for validation. A batch of `coupled` has 64 strings. The batches of the
        # other models have 2,048 symbols.
        eval_steps=20 if name == "coupled" else 100,
        scores=(
            Score("decode/accuracy", char, "char-acc"),
            Score("decode/accuracy_per_sequence", sequence, "seq-acc"),
        ),
        # A batch of 2,048 symbols contains 5 strings of 400 symbols.
        decode="beam_size=1,extra_length=10" + ("" if name == "coupled" else ",batch_size=100"),
    )


TABLE = Table(
    title="Copy, reverse, addition: 40 digits to 400",
    cells=tuple(_cell(task, name) for task in PROBLEMS for name in (*MODELS, "coupled")),
)
