from tests.training import toy


def test_some_updates_are_profiled(tmp_path, capsys):
    toy.make_trainer(tmp_path, profile_steps=(3, 4))[0].train(toy.epoch)
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert f"Profile written: tensorboard --logdir={tmp_path}" in capsys.readouterr().out


def test_a_run_that_ends_within_the_profile_writes_it(tmp_path):
    toy.make_trainer(tmp_path, profile_steps=(11, 100))[0].train(toy.epoch)
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))


def test_nothing_is_profiled_without_being_asked(tmp_path):
    toy.make_trainer(tmp_path)[0].train(toy.epoch)
    assert not (tmp_path / "plugins").exists()
