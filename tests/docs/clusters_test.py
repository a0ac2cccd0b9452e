"""Tests of the scripts and configurations in docs/clusters.md on one machine.

The scripts and configurations can be parsed and have the required fields. The trainer accepts their
commands and can read their descriptions of the workers.
"""

import json
import os
import re
import subprocess
import types

import pytest

from ut_keras.bin import command_line, flags, trainer_setup
from ut_keras.training import cluster

_PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "clusters.md")


def _section(name):
    with open(_PAGE, encoding="utf-8") as file:
        return file.read().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def _blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", _section(name), re.MULTILINE | re.DOTALL)


def _check(words):
    """Check that the trainer accepts a command line."""
    args = command_line.parse(flags.TRAINER, words, "ut-trainer", "")
    trainer_setup.check_names(args)
    assert args.output_dir and args.data_dir and args.global_batch_size == 4096


def _program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_slurm_script_starts_trainer(tmp_path):
    """A fake Slurm starts the second task, and a fake ut-trainer prints its arguments."""
    [script] = _blocks("Slurm", "text")
    assert script.startswith("#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 ")
    _program(tmp_path, "scontrol", '[ "$*" = "show hostnames" ] && printf "node9\\nnode10\\n"')
    _program(tmp_path, "srun", 'SLURM_PROCID=1 "$@"')
    _program(tmp_path, "ut-trainer", 'printf "%s\\n" "$TF_CONFIG" "$@"')
    config, *words = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    _check(words)
    found = cluster.from_environment({"TF_CONFIG": config})
    assert found == (("node9:8888", "node10:8888"), 1)


def test_kubeflow_job_starts_trainer(tmp_path):
    runtime, job = map(json.loads, _blocks("Kubeflow", "json"))
    assert {runtime["apiVersion"], job["apiVersion"]} == {"trainer.kubeflow.org/v1alpha1"}
    assert (runtime["kind"], job["kind"]) == ("TrainingRuntime", "TrainJob")
    reference = {"name": runtime["metadata"]["name"], "kind": runtime["kind"]}
    assert job["spec"]["runtimeRef"] == reference
    [replicated] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = replicated["template"]["metadata"]["labels"]
    assert labels["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    pod = replicated["template"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["name"] == replicated["name"] == "node" and container["image"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    trainer = job["spec"]["trainer"]
    # The command runs with a fake ut-trainer, which prints its arguments.
    _program(tmp_path, "ut-trainer", 'printf "%s\\n" "$TF_CONFIG" "$@"')
    given = {variable["name"]: variable["value"] for variable in trainer["env"]}
    for index in range(trainer["numNodes"]):
        environment = {**given, "JOB_COMPLETION_INDEX": str(index)}
        config, *words = subprocess.run(
            [*trainer["command"], *trainer["args"]],
            env={**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        _check(words)
        name = job["metadata"]["name"]
        workers = tuple(f"{name}-node-0-{i}.{name}:2222" for i in range(trainer["numNodes"]))
        assert cluster.from_environment({"TF_CONFIG": config}) == (workers, index)


@pytest.mark.parametrize("code", [0, 75])
def test_ray_program_starts_trainer(code, monkeypatch):
    """A fake Ray calls the function of the page, and a fake trainer checks the flags."""
    [program] = _blocks("Ray", "text")
    made = []

    class TensorflowTrainer:
        def __init__(self, train_loop_per_worker, *, scaling_config):
            made.append((train_loop_per_worker, scaling_config))

        def fit(self):
            made[-1][0]()

    def modules(**contents):
        for name, content in contents.items():
            monkeypatch.setitem(__import__("sys").modules, name.replace("__", "."), content)

    modules(
        ray=types.SimpleNamespace(),
        ray__train=types.SimpleNamespace(ScalingConfig=lambda num_workers: num_workers),
        ray__train__tensorflow=types.SimpleNamespace(TensorflowTrainer=TensorflowTrainer),
    )
    monkeypatch.setattr("ut_keras.bin.trainer.main", lambda words: _check(words) or code)
    run = compile(program, "clusters.md", "exec")
    if code:
        with pytest.raises(SystemExit) as ended:
            exec(run, {"__name__": "__main__"})
        assert ended.value.code == code
    else:
        exec(run, {"__name__": "__main__"})
    assert [scaling for _, scaling in made] == [2]


def test_vertex_config_is_understood():
    [job] = map(json.loads, _blocks("Vertex AI", "json"))
    chief, others = job["workerPoolSpecs"]
    assert chief["replicaCount"] == 1
    for pool in (chief, others):
        container = pool["containerSpec"]
        assert pool["machineSpec"]["machineType"] and container["imageUri"]
        assert container["command"] == ["ut-trainer"]
        _check(container["args"])
    # Vertex AI sets this TF_CONFIG on the machine of the second pool.
    config = {
        "cluster": {"chief": ["job-chief-0:2222"], "worker": ["job-worker-0:2222"]},
        "task": {"type": "worker", "index": 0, "cloud": "x"},
        "environment": "cloud",
    }
    found = cluster.from_environment({"TF_CONFIG": json.dumps(config)})
    assert found == (("job-chief-0:2222", "job-worker-0:2222"), 1)
