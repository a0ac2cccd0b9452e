"""In SCAN (Lake & Baroni 2018), a model translates a command into actions. The score is the share
of commands for which all actions are correct, with greedy decoding. In the split "length 26",
models are tested on commands with more than 26 actions. This split is from Csordás et al. 2021
("The Devil is in the Detail"), who report 1.00 with relative attention.

- `universal_50k` is trained for 50,000 updates, as in Csordás et al. It was trained on a GPU with
  `benchmarks/in_jax.py` while another run used the same GPU. It predicts all test commands
  correctly except 53 of the 128 longest ones. On these 53, it stops after 46 of 48 actions.
- `published` is `universal_50k` without scaling of the embeddings, as in Csordás et al. It is meant
  for training on a GPU.
- All other models use the same training with a fifth of the updates.
- A tenth of the training examples is held out for validation. They are as short as the training
  examples, so they cannot show which checkpoint generalizes best. As in Csordás et al., the last
  checkpoint is therefore tested.
"""

from results.definitions import Cell, Score, Table

DIVISIONS = {
    "simple": "simple",
    "length 22": "length",
    "length 26": "length_cutoff26",
    "jump": "addprim_jump",
}
MODELS = {
    "transformer": ("transformer", "transformer_scan"),
    "universal": ("universal_transformer", "universal_transformer_scan"),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_scan"),
}
LONG = {
    "published": ("universal_transformer", "universal_transformer_scan_published"),
    "universal_50k": MODELS["universal"],
}


def _cell(row, name, model, hparams_set, updates):
    is_theirs = row == "length 26" and hparams_set.startswith("universal")
    return Cell(
        name=f"{row}/{name}",
        problem=f"scan_{DIVISIONS[row]}_valid",
        model=model,
        hparams_set=hparams_set,
        updates=updates,
        every=2_500,
        valid="accuracy_per_sequence",
        flags=("--eval_early_stopping_metric=step",),  # this flag selects the last checkpoint
        scores=(Score("decode/accuracy_per_sequence", "1.00" if is_theirs else ""),),
        decode="beam_size=1,extra_length=50",
    )


TABLE = Table(
    title="SCAN",
    cells=(
        *(_cell("length 26", name, *made, updates=50_000) for name, made in LONG.items()),
        *(
            _cell(row, name, *made, updates=10_000)
            for row in DIVISIONS
            for name, made in MODELS.items()
        ),
    ),
)
