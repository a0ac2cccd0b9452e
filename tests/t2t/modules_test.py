import importlib
import re

import pytest

from tests.problems import ptb_test
from ut_keras import hparams, problems
from ut_keras.errors import DataError
from ut_keras.problems import problem as problem_lib
from ut_keras.t2t import adapted_problem, missing, modules, registry, text_problems
from ut_keras.t2t.missing import Missing


def test_every_stand_in_can_be_imported():
    for name, ours in modules.STAND_INS.items():
        assert importlib.import_module(f".{ours}", "ut_keras.t2t").__doc__
        assert modules.find(name) is modules.find(name)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("data_generators.lm1b.read", "ut_keras.problems.lm1b"),
        ("data_generators.image_utils.Image2ClassProblem", "your own subclass of Text2TextProblem"),
        (
            "data_generators.text_problems.Text2RealProblem",
            "a Text2ClassProblem whose classes are ranges",
        ),
        ("data_generators.cifar.ImageCifar10", None),
        ("models.transformer.TransformerScorer", "transformer"),
        ("models.vanilla_gan.gan", "ut_keras.models"),
        ("layers.common_layers.dense", "keras.layers and ut_keras.layers"),
        ("utils.adafactor.AdafactorOptimizer", "ut_keras.optimizers.adafactor"),
        ("no.such.thing", "docs/t2t.md"),
    ],
)
def test_unsupported_name_can_be_imported_and_raises_when_used(name, nearest):
    module, _, thing = name.rpartition(".")
    absent = getattr(modules.find(module), thing)
    message = rf"{re.escape(f'tensor2tensor.{name},')} .*{re.escape(nearest or 'text2text_tsv')}"

    class Derived(absent):
        pass

    class Mixed(text_problems.Text2TextProblem, absent):
        pass

    uses = (lambda: absent(1), lambda: list(absent), lambda: absent["x"], lambda: int(absent))
    sums = (lambda: absent + 1, lambda: 2 * absent, lambda: absent < 1, lambda: -absent)
    same = (lambda: absent == "train", lambda: absent == "train", lambda: absent != absent)
    sets = (lambda: absent in ("train",), lambda: 1 in absent, lambda: {absent})
    texts = (lambda: f"{absent}", lambda: str(absent), lambda: "".join(["a", str(absent)]))
    for use in (*uses, *sums, *same, *sets, *texts, Derived, lambda: Derived(1), Mixed):
        with pytest.raises(Missing, match=message):
            use()
    with pytest.raises(Missing, match=f"{re.escape(name)}.deeper"):
        absent.deeper()


def test_result_of_unsupported_call_during_import_raises_when_used(capsys):
    with missing.package_loading("folder"):
        absent = modules.find("utils.expert_utils").add_var_scope("x")
        made = absent(lambda: 1) + 2
    assert "utils.expert_utils.add_var_scope" in capsys.readouterr().out
    with pytest.raises(Missing, match="expert_utils.add_var_scope"):
        made()
    assert not isinstance(made, absent)
    modules.find("utils.trainer_lib").set_random_seed(1)  # this call has no effect


def test_absent_name_raises_when_compared_during_import():
    absent = modules.find("utils.registry").Nowhere
    for use in (lambda: absent == 1, lambda: bool(absent), lambda: {absent: 1}, lambda: [*absent]):
        with missing.package_loading("folder"), pytest.raises(Missing, match="registry.Nowhere"):
            use()


@pytest.mark.parametrize(
    "module", ["translate_envi", "translate_ende", "imdb", "text_problems", "squad"]
)
def test_module_reached_through_another_is_the_same(module):
    found = modules.find(f"data_generators.{module}")
    assert found.problem is modules.find("data_generators.problem")
    assert found.registry is modules.find("utils.registry")
    assert found.problem.DatasetSplit.TRAIN == "train"
    assert found.problem.DatasetSplit.EVAL == "eval"


def test_unknown_module_imports_the_stand_ins():
    """T2T had data_generators.wmt before version 1.4.

    ut_keras does not know which modules data_generators.wmt imports.
    """
    older = modules.find("data_generators.wmt")
    assert older.problem.DatasetSplit.TRAIN == "train"
    assert older.text_encoder.EOS_ID == 1


def test_unknown_name_in_a_folder_raises_when_compared():
    for folder in ("", "data_generators", "models", "utils"):
        with pytest.raises(Missing, match="TRAIN,"):
            assert modules.find(folder).TRAIN == "train"


def test_split_name_of_another_module_selects_train_files(load, tmp_path):
    load(
        """
        from tensor2tensor.data_generators import text_problems, translate_envi
        from tensor2tensor.utils import registry

        @registry.register_problem
        class FromEnvi(text_problems.Text2TextProblem):
            is_generate_per_split = True
            approx_vocab_size = 2**8
            def generate_samples(self, data_dir, tmp_dir, dataset_split):
                train = dataset_split == translate_envi.problem.DatasetSplit.TRAIN
                for number in range(100 if train else 12):
                    yield {"inputs": f"a {number}", "targets": f"b {number}"}
        """
    )
    counts = problems.get("from_envi").generate_data(str(tmp_path / "data"), str(tmp_path / "tmp"))
    assert counts == {"train": 100, "dev": 12}


def test_package_can_derive_from_t2t_problem():
    reviews = modules.find("data_generators.imdb").SentimentIMDB
    assert modules.find("data_generators").imdb.SentimentIMDB is reviews

    class MyReviews(reviews):
        approx_vocab_size = 2**9

    mine, theirs = MyReviews(), reviews()
    mine.name = "my_reviews"
    assert isinstance(mine, text_problems.Text2ClassProblem)
    assert mine.vocab_filename == "vocab.my_reviews.512.subwords"
    assert theirs.vocab_filename == "vocab.sentiment_imdb.8192.subwords"
    assert theirs.class_labels(None) == ["neg", "pos"] and theirs.num_classes == 2
    assert [split["shards"] for split in theirs.dataset_splits] == [10, 1]
    translate = modules.find("data_generators.translate_enfr").TranslateEnfrWmt32k
    assert translate().approx_vocab_size == 2**15


def test_translation_with_own_text_has_t2ts_splits():
    theirs = modules.find("data_generators.translate_ende").TranslateEndeWmt32k
    for name in ("source_data_files", "generate_samples"):
        mine = type("Mine", (theirs,), {name: lambda self, *args: []})()
        assert [split["split"] for split in mine.dataset_splits] == ["train", "eval"]
    assert [split["split"] for split in theirs().dataset_splits] == ["train", "eval", "test"]


def test_derived_problem_keeps_t2ts_vocabulary_name():
    ptb = modules.find("data_generators.ptb").LanguagemodelPtb10k
    wnli = modules.find("data_generators.wnli").WinogradNLI
    for theirs, expected in ((ptb, "vocab.lmptb.10000"), (wnli, "vocab.wnli.8192")):
        mine = type("Mine", (theirs,), {})()
        mine.name = "mine"
        assert mine.vocab_filename == expected


def test_problem_derived_from_word_problem_builds_vocabulary(tmp_path, registries):
    ptb_test.write_archive(tmp_path)
    registry.register_problem(
        type("MyPtb", (modules.find("data_generators.ptb").LanguagemodelPtb10k,), {})
    )
    problem, counts = ptb_test.generate("my_ptb", tmp_path)
    assert counts["train"] == 2
    (dev,) = ptb_test.records(problem, tmp_path, "dev")
    encoder = problem.feature_encoders(str(tmp_path / "data"))["targets"]
    assert encoder.decode(dev) == "the group is dutch <EOS>"


def test_derived_problem_has_built_in_samples(tmp_path):
    for part in ("train", "test"):
        for label in ("neg", "pos"):
            folder = tmp_path / "aclImdb" / part / label
            folder.mkdir(parents=True)
            (folder / "1.txt").write_text(f"{part} {label}")
    problem = modules.find("data_generators.imdb").SentimentIMDB()
    samples = list(problem.generate_samples(None, str(tmp_path), "eval"))
    assert samples == [
        {"inputs": "test pos", "label": 1},
        {"inputs": "test neg", "label": 0},
    ]
    texts = problem.generate_text_for_vocab(str(tmp_path), str(tmp_path))
    assert sorted(texts) == ["train neg", "train pos"]


@pytest.mark.parametrize(
    ("module", "base", "hook"),
    [
        ("translate_ende", "TranslateEndeWmt8k", "additional_training_datasets"),
        ("wiki_lm", "LanguagemodelEnWiki32k", "train_names_ids"),
        ("imdb", "SentimentIMDB", "doc_generator"),
        ("cola", "Cola", "_maybe_download_corpora"),
    ],
)
def test_hook_of_t2ts_class_that_is_not_called_raises(module, base, hook, registries):
    """Without the error, the package would train on the data of T2T's problem."""
    theirs = getattr(modules.find(f"data_generators.{module}"), base)
    registry.register_problem(type("MineWithHook", (theirs,), {hook: ["mine"]}))
    with pytest.raises(
        DataError, match=f"MineWithHook must override generate_samples and not {hook}"
    ):
        problems.get("mine_with_hook")
    own = {"generate_samples": lambda self, data_dir, tmp_dir, split: []}
    registry.register_problem(type("MineWithSamples", (theirs,), {hook: ["mine"], **own}))
    problems.get("mine_with_samples")


def test_own_samples_of_one_pass_are_divided_as_in_t2t():
    """Otherwise the dev split would contain the samples of the train split."""
    theirs = modules.find(
        "data_generators.algorithmic_math_two_variables"
    ).AlgorithmicMathTwoVariables
    own = {"generate_samples": lambda self, data_dir, tmp_dir, split: []}
    assert theirs().is_generate_per_split
    assert not type("Mine", (theirs,), own)().is_generate_per_split


def test_derived_problem_limits_the_samples_for_the_vocabulary(tmp_path):
    (tmp_path / "enwiki_train.txt").write_text(("a b " * 900 + "\n") * 6)
    theirs = modules.find("data_generators.wiki_lm").LanguagemodelEnWiki32k
    mine = type("Mine", (theirs,), {"max_samples_for_vocab": 2})()
    assert len(list(mine.generate_text_for_vocab("", str(tmp_path)))) == 2
    mine._max_cases = 1
    assert len(list(mine.generate_text_for_vocab("", str(tmp_path)))) == 1
    assert len(list(theirs().generate_text_for_vocab("", str(tmp_path)))) == 5


def test_problem_whose_classes_are_words_cannot_be_derived_from():
    """A derived class would learn the word and EOS instead of a class."""
    with pytest.raises(Missing, match="LambadaRc,.* use ut_keras.problems.lambada"):
        modules.find("data_generators.lambada").LambadaRc()


def test_derived_problem_has_the_maximum_length_of_its_base(registries):
    """Otherwise training drops the long examples for which T2T's problem is made."""
    theirs = modules.find("data_generators.wikitext103").LanguagemodelWikitext103L4k
    registry.register_problem(type("MyL4k", (theirs,), {}))
    hp = hparams.get("transformer_tiny")
    assert problems.get("my_l4k").with_hparams(hp, "train").max_length == 4096
    packed = modules.find("data_generators.lm1b").LanguagemodelLm1b32kPacked
    registry.register_problem(type("MyPacked", (packed,), {"packed_length": 64}))
    assert problems.get("my_packed").with_hparams(hp, "train").max_length == 64


def test_derived_problem_can_replace_its_base(monkeypatch):
    monkeypatch.setattr(problem_lib.REGISTRY, "_entries", dict(problem_lib.REGISTRY._entries))
    reviews = modules.find("data_generators.imdb").SentimentIMDB
    registry.register_problem(type("SentimentIMDB", (reviews,), {}))
    assert type(problems.get("sentiment_imdb")) is adapted_problem.Adapted
    assert problems.get("sentiment_imdb").num_shards("train") == 10


def test_import_star_gives_public_names(load, capsys):
    load(
        """
        from tensor2tensor.data_generators.text_problems import *
        from tensor2tensor.models import *
        from tensor2tensor.models.transformer import *

        assert Text2TextProblem.__module__ == "ut_keras.t2t.text_problems" and VocabType
        assert txt_line_iterator and transformer_base_range
        assert transformer_base_v2().hidden_size == 512 and Transformer and update_hparams_for_tpu
        assert not {"Any", "models"} & globals().keys()
        assert problem.DatasetSplit.TRAIN == "train" and registry.register_problem and os.path
        """
    )
    load("from tensor2tensor.layers.common_layers import *", "second")
    assert "tensor2tensor.layers.common_layers.*," in capsys.readouterr().out


def test_unknown_split_reads_evaluation_files(tmp_path):
    (tmp_path / "aclImdb" / "test" / "pos").mkdir(parents=True)
    (tmp_path / "aclImdb" / "test" / "pos" / "1.txt").write_text("good")
    (tmp_path / "aclImdb" / "test" / "neg").mkdir()
    (tmp_path / "aclImdb" / "test" / "neg" / "1.txt").write_text("bad")
    problem = modules.find("data_generators.imdb").SentimentIMDB()
    found = [
        list(problem.generate_samples(None, str(tmp_path), split)) for split in ("eval", "test")
    ]
    assert found[0] == found[1] and len(found[0]) == 2


def test_own_samples_keep_translation_vocabulary_source(monkeypatch):
    ende = modules.find("data_generators.translate_ende").TranslateEndeWmt32k

    class Mine(ende):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            raise AssertionError

    problem = Mine()
    monkeypatch.setattr(type(problem._built_in), "texts_for_vocab", lambda *args: ["theirs"])
    assert list(problem.generate_text_for_vocab("", "")) == ["theirs"]
