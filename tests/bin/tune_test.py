"""End-to-end tests of the hparam search.

A fast program replaces the trainer in all tests except `test_search_runs_the_real_trainer`.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

import trainer
from tests.bin import small_run
from ut_keras import hparams
from ut_keras.bin import command, command_line, flags, tune
from ut_keras.errors import UsageError
from ut_keras.training import search

optuna = pytest.importorskip("optuna")

_ROOT = pathlib.Path(__file__).parents[2]
_PROGRAM = f"import runpy; runpy.run_path({str(_ROOT / 'tests/bin/tuned_program.py')!r})"
_RANGE = "tune_test_range"


@hparams.register_range(_RANGE)
def _range(rhp):
    rhp.set_float("learning_rate_constant", 1e-5, 1.0, scale=rhp.LOG_SCALE)
    rhp.set_discrete("num_heads", [2, 3, 4])
    rhp.set_categorical("ffn_layer", ["dense_relu_dense", "conv_hidden_relu"])


@pytest.fixture(scope="module", autouse=True)
def _short_waits():
    """Let a search check its trials every 0.02 seconds. A trial takes only 0.1 seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "_WAIT_SECONDS", 0.02)
        yield


def _argv(directory, *more, **changed):
    values = {
        "problem": small_run.PROBLEM,
        "model": "transformer",
        "hparams_set": "transformer_tiny",
        "hparams": "hidden_size=12",
        "data_dir": str(directory),
        "output_dir": str(directory / "search"),
        "train_steps": "6",
        "hparams_range": _RANGE,
        "autotune_objective": "score",
        "autotune_max_trials": "5",
        "random_seed": "1",
    } | changed
    return [*(f"--{name}={value}" for name, value in values.items() if value is not None), *more]


def _search(argv):
    """Run a search in this process, as the trainer does, and return the exit code."""
    return command.run_with_flags(
        lambda args: tune.run(args, _PROGRAM), flags.TRAINER, "", "", argv
    )


@pytest.fixture(name="finished_search", scope="module")
def finished_search_fixture(tmp_path_factory):
    """Return the folder of a search with five finished trials."""
    folder = tmp_path_factory.mktemp("finished")
    assert _search(_argv(folder)) == 0
    return folder / "search"


@pytest.fixture(name="finished")
def finished_fixture(tmp_path, finished_search):
    """Copy the search with five finished trials to the folder of a test."""
    shutil.copytree(finished_search, tmp_path / "search")


def _trials(directory):
    """Return the trials that Optuna reads from the journal."""
    backend = optuna.storages.journal.JournalFileBackend(str(directory / "search/search.journal"))
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name="search", storage=storage).trials


def _trial_records(directory):
    """Return the properties of the trials, without their times."""
    return [(t.number, t.state.name, t.value, t.params, t.user_attrs) for t in _trials(directory)]


def _starts(directory, number):
    return (directory / f"search/trial-{number}/starts").read_text().splitlines()


def _wait_for(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def test_search_writes_journal_and_table(tmp_path, capsys):
    assert _search(_argv(tmp_path)) == 0
    trials = _trials(tmp_path)
    values = [trial.value for trial in trials]
    assert len(values) == 5 and {trial.state.name for trial in trials} == {"COMPLETE"}
    *_, first, second, _, _, last, best = capsys.readouterr().out.splitlines()
    number = values.index(max(values))
    tried = trials[number].params["learning_rate_constant"]
    assert first.startswith(f"trial-{number}: learning_rate_constant={tried:.4g} num_heads=")
    assert first.endswith(f": score={max(values):.4g}")
    assert second.endswith(f": score={sorted(values)[-2]:.4g}")
    assert last.endswith(f": score={min(values):.4g}")
    assert f"best: trial-{number}, " in best
    assert "--hparams=hidden_size=12,learning_rate_constant=" in best


def test_trials_get_flags_of_a_user_package(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import tensorflow as tf\ntf.flags.DEFINE_integer('bonus', 0, 'More.')\n"
    )
    argv = _argv(tmp_path, f"--t2t_usr_dir={tmp_path}/mine", autotune_max_trials="1")
    assert _search([*argv, "--bonus=1000"]) == 0
    assert _trials(tmp_path)[0].value > 900
    assert _search([*argv, "--bonus=7"]) == 2
    assert "flags of --t2t_usr_dir must be ['--bonus=1000']" in capsys.readouterr().err


def test_search_keeps_foreign_files(tmp_path, capsys):
    mine = tmp_path / "search" / "trial-1" / "log.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert _search(_argv(tmp_path)) == 2
    assert "trial-1', which does not belong" in capsys.readouterr().err
    assert mine.read_text() == "mine" and not (tmp_path / "search" / "search.journal").exists()
    assert _search(_argv(tmp_path, autotune_max_trials="1")) == 0
    assert _search(_argv(tmp_path)) == 2
    assert "trial-1', which does not belong" in capsys.readouterr().err
    assert mine.read_text() == "mine"


@pytest.mark.usefixtures("finished")
def test_repeated_search_only_runs_new_trials(tmp_path):
    first = _trial_records(tmp_path)
    assert _search(_argv(tmp_path)) == 0
    assert _search(_argv(tmp_path, autotune_max_trials="7", random_seed=None)) == 0
    trials = _trial_records(tmp_path)
    assert trials[:5] == first and len(trials) == 7
    assert all(len(_starts(tmp_path, number)) == 1 for number in range(7))


@pytest.mark.usefixtures("finished")
def test_hard_linked_copy_of_a_search_is_independent(tmp_path):
    files = [path for path in (tmp_path / "search").rglob("*") if path.is_file()]
    before = [path.read_bytes() for path in files]
    shutil.copytree(tmp_path / "search", tmp_path / "copy" / "search", copy_function=os.link)
    again = _argv(tmp_path, autotune_max_trials="7", output_dir=str(tmp_path / "copy/search"))
    assert _search(again) == 0
    assert len(_trials(tmp_path / "copy")) == 7
    assert [path.read_bytes() for path in files] == before


def test_search_finds_the_best_value(tmp_path):
    ranges = hparams.get_range(_RANGE)
    study = search.open_study(str(tmp_path), {"autotune_maximize": True}, random_seed=3)
    for _ in range(25):
        trial = search.next_trial(study, ranges, (), 25)
        values = trial.user_attrs["hparams"]
        value = -abs(values["num_heads"] - 3) - abs(values["learning_rate_constant"] - 0.5)
        study.tell(trial, value)
    trials = study.trials
    late = [trial.value for trial in trials[12:]]
    assert sum(late) / len(late) > sum(t.value for t in trials[:5]) / 5
    assert study.best_trial.user_attrs["hparams"]["num_heads"] == 3


def test_truncated_journal_entry_is_ignored(tmp_path):
    identity = {"autotune_maximize": True, "train_steps": 6}
    search.open_study(str(tmp_path), identity)
    path = tmp_path / "search.journal"
    path.write_bytes(path.read_bytes()[:-5])
    search.open_study(str(tmp_path), identity)
    assert search.open_study(str(tmp_path), identity).user_attrs["train_steps"] == 6


def test_invalid_journal_is_rejected(tmp_path):
    (tmp_path / "search.journal").write_text("mine\n")
    with pytest.raises(UsageError, match="search.journal must contain a search. Received: "):
        search.open_study(str(tmp_path), {"autotune_maximize": True})
    assert (tmp_path / "search.journal").read_text() == "mine\n"


def test_study_of_the_user_is_kept(tmp_path):
    optuna = search.optuna()
    path = tmp_path / "search.journal"
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    optuna.create_study(study_name="search", storage=storage, direction="maximize").ask()
    before = path.read_text()
    with pytest.raises(UsageError, match="must contain a search of the trainer"):
        search.open_study(str(tmp_path), {"autotune_maximize": True})
    assert path.read_text() == before


# Tests with trials that the user adds with Optuna.

_ENQUEUED = {"learning_rate_constant": 0.25, "num_heads": 2, "ffn_layer": "conv_hidden_relu"}


def _study(directory):
    """Open the study with Optuna, as a user does, and return the study."""
    backend = optuna.storages.journal.JournalFileBackend(str(directory / "search/search.journal"))
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name="search", storage=storage)


@pytest.fixture(name="begun_search", scope="module")
def begun_search_fixture(tmp_path_factory):
    """Return the folder of a search with two finished trials."""
    folder = tmp_path_factory.mktemp("begun")
    assert _search(_argv(folder, autotune_max_trials="2")) == 0
    return folder / "search"


@pytest.fixture
def begun(tmp_path, begun_search):
    """Return a study with two finished trials, in the folder of a test."""
    shutil.copytree(begun_search, tmp_path / "search")
    return _study(tmp_path)


def test_enqueued_trial_runs_with_its_hparams(tmp_path, begun, capsys):
    begun.enqueue_trial(_ENQUEUED)
    assert _search(_argv(tmp_path, autotune_max_trials="4")) == 0
    assert [trial.state.name for trial in _trials(tmp_path)] == ["COMPLETE"] * 4
    trial = _trials(tmp_path)[2]
    # The value 2 means 2 heads. It is not an index into the choices 2, 3 and 4.
    assert trial.user_attrs["hparams"] == _ENQUEUED
    assert trial.params == {**_ENQUEUED, "num_heads": 0}
    assert "trial-2: learning_rate_constant=0.25 num_heads=2 ffn" in capsys.readouterr().out
    before = _trial_records(tmp_path)
    assert _search(_argv(tmp_path, autotune_max_trials="4")) == 0
    assert _trial_records(tmp_path) == before


def test_enqueued_trial_runs_after_the_last_of_a_search(tmp_path, begun):
    begun.enqueue_trial(_ENQUEUED)
    assert _search(_argv(tmp_path, autotune_max_trials="2")) == 0
    assert [trial.state.name for trial in _trials(tmp_path)] == ["COMPLETE"] * 3


def test_enqueued_trial_gets_proposals_for_missing_hparams(tmp_path, begun):
    begun.enqueue_trial({"num_heads": 4})
    begun.enqueue_trial({})
    assert _search(_argv(tmp_path, autotune_max_trials="2")) == 0
    third, fourth = _trials(tmp_path)[2:]
    assert third.user_attrs["hparams"]["num_heads"] == 4
    assert third.user_attrs["hparams"].keys() == fourth.user_attrs["hparams"].keys()
    assert 1e-5 <= third.user_attrs["hparams"]["learning_rate_constant"] <= 1.0


@pytest.mark.parametrize(
    "enqueued, words",
    [
        ({"num_heads": 1}, ["num_heads", "2, 3, 4", "Received: 1"]),
        ({"num_heads": True}, ["num_heads", "Received: True"]),
        ({"learning_rate_constant": 2.0}, ["learning_rate_constant", "1.0", "Received: 2.0"]),
        ({"learning_rate_constant": "0.1"}, ["learning_rate_constant", "Received: '0.1'"]),
        ({"ffn_layer": "dense"}, ["ffn_layer", "conv_hidden_relu", "Received: 'dense'"]),
        ({"learning_rate": 0.1}, ["learning_rate_constant", "Received: learning_rate=0.1"]),
    ],
)
def test_enqueued_trial_outside_the_ranges_fails_alone(tmp_path, begun, capsys, enqueued, words):
    begun.enqueue_trial(enqueued)
    assert _search(_argv(tmp_path, autotune_max_trials="4")) == 0
    trials = _trials(tmp_path)
    assert [t.state.name for t in trials] == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert all(word in trials[2].user_attrs["reason"] for word in words)
    assert f"trial-2 failed: {trials[2].user_attrs['reason']}" in capsys.readouterr().out
    assert not (tmp_path / "search/trial-2").exists()


def test_enqueued_trial_of_a_killed_search_is_resumed(tmp_path, begun):
    begun.enqueue_trial(_ENQUEUED)
    begun.ask()  # a search that is killed now leaves this state
    assert _trials(tmp_path)[2].state.name == "RUNNING"
    assert _search(_argv(tmp_path, autotune_max_trials="2")) == 0
    trial = _trials(tmp_path)[2]
    assert trial.state.name == "COMPLETE" and trial.user_attrs["hparams"] == _ENQUEUED


def test_enqueued_trial_keeps_existing_folder(tmp_path, begun, capsys):
    begun.enqueue_trial(_ENQUEUED)
    (tmp_path / "search/trial-2").mkdir()
    line = small_run.error(capsys, _search, _argv(tmp_path, autotune_max_trials="2"))
    assert "trial-2" in line and _trials(tmp_path)[2].state.name == "WAITING"


def test_added_and_pruned_trials_are_in_the_table(tmp_path, begun, capsys):
    first = _trials(tmp_path)[0]
    begun.add_trial(
        optuna.trial.create_trial(
            params={**first.params, "learning_rate_constant": 0.5, "num_heads": 1},
            distributions=first.distributions,
            value=1000.0,
        )
    )
    pruned = begun.ask()
    pruned.report(2000.0, step=1)
    begun.tell(pruned, state=optuna.trial.TrialState.PRUNED)
    capsys.readouterr()
    assert _search(_argv(tmp_path, autotune_max_trials="5")) == 0
    *_, added, _, _, _, last, best = capsys.readouterr().out.splitlines()
    assert added.startswith("trial-2: learning_rate_constant=0.5 num_heads=3 ")
    assert added.endswith("score=1000")
    assert last.startswith("trial-3: ") and last.endswith(": pruned")
    assert "best: trial-2, " in best
    assert "--hparams=hidden_size=12,learning_rate_constant=0.5,num_heads=3," in best


def test_pruned_trial_has_no_result(tmp_path):
    study = search.open_study(str(tmp_path), {"autotune_maximize": True})
    trial = study.ask()
    trial.report(1.0, step=1)
    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    assert search.completed(study) == []
    assert search.reason(study.trials[0]) == "pruned"


@pytest.mark.parametrize(
    "name, distribution, value",
    [
        ("num_heads", optuna.distributions.IntDistribution(2, 4), 3),
        ("num_heads", optuna.distributions.FloatDistribution(2, 4), 3.0),
        ("ffn_layer", optuna.distributions.CategoricalDistribution(["other"]), "other"),
    ],
)
def test_added_trial_of_other_ranges_is_rejected(
    tmp_path, begun, capsys, name, distribution, value
):
    begun.add_trial(
        optuna.trial.create_trial(
            params={name: value}, distributions={name: distribution}, value=1.0
        )
    )
    line = small_run.error(capsys, _search, _argv(tmp_path))
    assert "trial-2" in line and str(distribution) in line
    assert len(_trials(tmp_path)) == 3


def test_result_that_the_user_reported_is_kept(tmp_path):
    study = search.open_study(str(tmp_path), {"autotune_maximize": True})
    trial = search.next_trial(study, hparams.get_range(_RANGE), (), 1)
    study.tell(trial.number, 7.0)
    search.tell(study, trial, 8.0)
    search.tell(study, trial, None, "killed")
    assert study.trials[0].value == 7.0 and "reason" not in study.trials[0].user_attrs


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_stopped_search_resumes_with_equal_results(tmp_path, end):
    """After SIGKILL of a search, the next search waits until the running trial has saved."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    whole.mkdir()
    parted.mkdir()
    assert _search(_argv(whole)) == 0
    code = (
        "import sys; from tests.bin import tune_test\nsys.exit(tune_test._search(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *_argv(parted)],
        cwd=_ROOT,
        env=os.environ | {"TUNED_PROGRAM": "slow"},
        stdout=subprocess.PIPE,
        text=True,
    )
    _wait_for(parted / "search/trial-1/ready", process)
    process.send_signal(end)
    output, _ = process.communicate(timeout=120)
    if end != signal.SIGKILL:
        assert process.returncode == 128 + end
        assert "Run the same command again to resume" in output
    assert [trial.state.name for trial in _trials(parted)] == ["COMPLETE", "RUNNING"]

    assert _search(_argv(parted)) == 0
    assert (parted / "search/trial-1/saved").exists()
    assert _trial_records(parted) == _trial_records(whole)
    assert [len(_starts(parted, number)) for number in range(5)] == [1, 2, 1, 1, 1]


def test_failed_trial_is_reported_and_skipped(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNED_PROGRAM", "broken")
    assert _search(_argv(tmp_path)) == 0
    trial = _trials(tmp_path)[1]
    assert (trial.state.name, trial.value) == ("FAIL", None)
    assert trial.user_attrs["reason"] == "The loss and the weights must be finite."
    assert "trial-1 failed: The loss and the weights must be" in capsys.readouterr().out


def test_incompatible_hparams_fail_the_trial(tmp_path):
    assert _search(_argv(tmp_path, hparams="hidden_size=8")) == 0
    found = [trial.user_attrs for trial in _trials(tmp_path)]
    failed = [attributes for attributes in found if attributes["hparams"]["num_heads"] == 3]
    assert failed and len(failed) < len(found)
    assert all("divisible by num_heads" in attributes["reason"] for attributes in failed)


def test_parallel_trials_share_the_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert _search(_argv(tmp_path, autotune_parallel_trials="2")) == 0
    seen = {_starts(tmp_path, number)[0] for number in range(5)}
    assert seen == {"0,1", "2,3"}
    with pytest.raises(UsageError, match="a multiple of"):
        tune.gpu_groups(3)


def test_fixed_hparams_are_not_searched(tmp_path):
    assert _search(_argv(tmp_path, hparams="hidden_size=12,num_heads=4")) == 0
    assert all("num_heads" not in t.user_attrs["hparams"] for t in _trials(tmp_path))


def test_wrong_objective_is_rejected_and_can_be_corrected(tmp_path, capsys):
    argv = _argv(tmp_path, autotune_objective="scor")
    line = small_run.error(capsys, _search, argv)
    assert "--autotune_objective must be one of score" in line
    problem = small_run.PROBLEM
    assert _search(_argv(tmp_path, autotune_objective=f"metrics-{problem}/targets/score")) == 0


def test_search_requires_the_same_data(tmp_path, capsys):
    for split in ("train", "dev"):
        path = tmp_path / f"{small_run.PROBLEM}-{split}-00000-of-00001"
        path.write_bytes(b"first data")
    argv = _argv(tmp_path, autotune_max_trials="1")
    assert _search(argv) == 0
    assert _search(argv) == 0
    path.write_bytes(b"other data")
    line = small_run.error(capsys, _search, _argv(tmp_path, autotune_max_trials="2"))
    assert "the evaluation data must be" in line and "Use another --output_dir" in line
    assert len(_trials(tmp_path)) == 1


@pytest.mark.usefixtures("finished")
def test_another_search_requires_another_folder(tmp_path, capsys):
    others = ({"decode_hparams": "beam_size=1"}, {"moving_average_decay": "0.9"})
    for changed in (
        *({"train_steps": "7"}, {"random_seed": "2"}, {"hparams": "hidden_size=24"}),
        *others,
    ):
        line = small_run.error(capsys, _search, _argv(tmp_path, **changed))
        assert f"{next(iter(changed))} must be " in line and f"in {tmp_path}" in line


def test_search_requires_the_same_early_stopping(tmp_path, capsys):
    flag = "eval_early_stopping_metric_delta"
    steps = {"eval_early_stopping_steps": "4", "autotune_max_trials": "1"}
    assert _search(_argv(tmp_path, **steps)) == 0
    line = small_run.error(capsys, _search, _argv(tmp_path, **steps, **{flag: "0.5"}))
    assert f"{flag} must be 0.1" in line
    # Without early stopping, the flag has no effect on the results.
    other = {"data_dir": str(tmp_path), "autotune_max_trials": "1"}
    assert _search(_argv(tmp_path / "other", **other)) == 0
    assert _search(_argv(tmp_path / "other", **other, **{flag: "0.5"})) == 0


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"autotune_objective": None}, "--autotune_objective is required"),
        ({"autotune_objective": "loss"}, "requires --noautotune_maximize"),
        ({"autotune_objective": "losses/training"}, "requires --noautotune_maximize"),
        ({"autotune_objective": "metrics-x/edit_distance"}, "requires --noautotune_maximize"),
        ({"hparams_range": "transformer_bas_range"}, "transformer_base_range"),
        ({"hparams_range": "universal_transformer_base_range"}, "num_rec_steps"),
        ({"hparams_set": None}, "--hparams_set is required"),
        ({"autotune_max_trials": "0"}, "--autotune_max_trials must be at least 1"),
        ({"autotune_parallel_trials": "0"}, "--autotune_parallel_trials must be at least 1"),
        ({"autotune_objective": "decode/bleu"}, "requires --schedule=train_eval_and_decode"),
        ({"schedule": "train"}, "--schedule must train and evaluate"),
        ({"data_dir": "/nowhere"}, "does not exist"),
    ],
)
def test_user_errors_are_reported_before_the_search(tmp_path, capsys, changed, message):
    assert message in small_run.error(capsys, _search, _argv(tmp_path, **changed))
    assert not (tmp_path / "search/search.journal").exists()


@pytest.mark.parametrize(
    "objective, more, maximizes",
    [
        ("loss", ["--autotune_maximize"], True),
        ("loss", ["--noautotune_maximize"], False),
        ("score", [], True),
    ],
)
def test_given_direction_of_the_objective_is_used(tmp_path, objective, more, maximizes):
    argv = _argv(tmp_path, *more, autotune_objective=objective)
    args = command_line.parse(flags.TRAINER, argv, "trainer.py", "")
    args.package_words = []
    tune.check(args)
    assert args.autotune_maximize is maximizes


def test_search_rejects_several_workers(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "TF_CONFIG must not be set" in small_run.error(capsys, _search, _argv(tmp_path))


def test_search_without_optuna_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install -e '.[tune]'" in small_run.error(capsys, _search, _argv(tmp_path))


@pytest.mark.slow
def test_search_runs_the_real_trainer(tmp_path, capsys):
    argv = _argv(
        tmp_path,
        "--generate_data",
        f"--tmp_dir={tmp_path}",
        "--local_eval_frequency=2",
        "--eval_steps=1",
        "--noautotune_maximize",
        hparams="hidden_size=12,filter_size=8,num_hidden_layers=1,batch_size=256,num_heads=2",
        autotune_objective="loss",
        autotune_max_trials="1",
        train_steps="2",
    )
    assert trainer.main(argv) == 0
    (trial,) = _trials(tmp_path)
    assert trial.state.name == "COMPLETE" and trial.value > 0
    run = json.loads((tmp_path / "search/trial-0/hparams.json").read_text())
    assert run["learning_rate_constant"] == trial.params["learning_rate_constant"]
    assert run["hidden_size"] == 12
    assert "best: trial-0" in capsys.readouterr().out
