"""benchmarks/checkpoint.py measures how long training waits for a checkpoint."""


def test_measure_saves_checkpoints(benchmark_module, tmp_path):
    found = benchmark_module("checkpoint").measure(str(tmp_path), 16, 2, vocab=9)
    assert (tmp_path / "model.ckpt-3.index").exists()
    size = found.pop("bytes")
    assert size > 3 * 4 * 16 * 16  # a weight has two values of Adam
    assert [len(seconds) for seconds in found.values()] == [2, 2]
    assert min(map(min, found.values())) > 0
