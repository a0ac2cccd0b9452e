"""Test of the raw files that benchmarks/datagen.py writes."""

from ut_keras import problems


def test_problem_finds_written_raw_files(benchmark_module, tmp_path):
    datagen = benchmark_module("datagen")
    [first, *_] = problems.get("translate_ende_wmt32k").files["train"]
    datagen.write_pairs(str(tmp_path), first, [(b"a dog", b"ein Hund")])
    source, target = first.find(str(tmp_path))
    with open(source) as english, open(target) as german:
        assert (english.read(), german.read()) == ("a dog\n", "ein Hund\n")
