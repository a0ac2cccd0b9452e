"""The flags of ut-visualize and ut-plot."""

from ut_keras.bin.command_line import Flag
from ut_keras.bin.flags import DECODER_OWN

# Which weights to take, as ut-decoder is told.
_RUN = ("problem", "model", "hparams_set", "hparams", "data_dir", "output_dir", "checkpoint_path")
_REGISTRY = ("t2t_usr_dir", "registry_help")
VISUALIZE = (
    *(flag for flag in DECODER_OWN if flag.name in (*_RUN, *_REGISTRY)),
    Flag("input", "", "What the model is to read; of a story, its sentences and the question."),
    Flag("target", "", "What it is to write. Default: what it writes by itself."),
    Flag("example", -1, "Instead of --input: the example of that number, from 0, of the split."),
    Flag("eval_use_test_set", False, '--example is of the "test" split, not of "dev".'),
    Flag("visualize_dir", None, "Folder to write the pictures and the page to.", str),
)

PLOT = (
    Flag("runs", None, "Folders of runs with a metrics.jsonl, joined by commas.", str),
    Flag("metrics", "loss", "Names in metrics.jsonl, joined by commas; each gets a panel."),
    Flag("output", None, "File to write: .png, .svg or .pdf.", str),
)
