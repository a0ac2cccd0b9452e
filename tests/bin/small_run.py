"""Write a run with random weights so large that different inputs give different outputs."""

import numpy as np

from ut_keras import hparam_schema, hparams, models, problems
from ut_keras.inference import run_json

PROBLEM = "algorithmic_reverse_binary40_test"
SMALL = {
    "hidden_size": 16,
    "filter_size": 32,
    "num_heads": 2,
    "num_hidden_layers": 1,
    "shared_embedding_and_softmax_weights": False,
}


def write(directory, data_dir=None, problem=PROBLEM, model="transformer", steps=(1,), **changed):
    """Write checkpoints and records of a run.

    Args:
        directory: pathlib.Path, an existing folder.
        data_dir: str or path, the folder with the data of the problem.
        problem, model: str, the names of the problem and the model.
        steps: ints, the steps of the checkpoints. Each checkpoint has other random weights.
        **changed: hparams that replace or extend `SMALL`.

    Returns:
        The model, with the weights of the last checkpoint.
    """
    from ut_keras import optimizers
    from ut_keras.checkpoints import checkpoint

    hp = hparams.get(
        "universal_transformer_tiny" if model.startswith("univ") else "transformer_tiny",
        ",".join(f"{name}={value}" for name, value in {**SMALL, **changed}.items()),
    )
    problem = problems.get(problem)
    built = models.get(model, hp, problem, data_dir and str(data_dir))
    optimizer = optimizers.get(hp)
    optimizer.build(built.trainable_variables)
    checkpoints = checkpoint.Checkpoints(str(directory), built, optimizer)
    for step in steps:
        rng = np.random.default_rng(step)
        for weight in built.trainable_variables:
            if len(weight.shape) > 1:
                value = rng.normal(size=weight.shape).astype("float32")
                if "softmax" in weight.path:
                    value[1] *= 0.3  # smaller EOS weights make longer outputs
                weight.assign(value)
        optimizer.iterations.assign(step)
        checkpoints.save()
    hparam_schema.save(hp, str(directory / "hparams.json"))
    run_json.write(
        str(directory), problem=problem.name, model=model, hparams_set="transformer_tiny"
    )
    return built


def error(capsys, main, argv):
    """Run a command that fails, and return the only line that it writes to stderr."""
    assert main(argv) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]
