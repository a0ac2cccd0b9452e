import functools

import pytest

from ut_keras import hparams, models, registry


def test_get_gives_the_reason_for_an_unsupported_name():
    table = registry.Registry("thing")
    table.register("old_kept")(1)
    table.mark_unsupported("old_*", "it has gone; the nearest: new")
    assert table.get("old_kept") == 1 and table.names() == ["old_kept"]
    with pytest.raises(registry.UnknownNameError) as error:
        table.get("old_one")
    assert (
        str(error.value) == "The thing 'old_one' is not supported: it has gone; the nearest: new."
    )
    assert "old_one" not in table
    with pytest.raises(registry.UnknownNameError, match="nearest names?: old_kept"):
        table.get("ald_kept")
    table.register("old_but_of_a_package")(2)
    with pytest.raises(registry.UnknownNameError, match="nearest names?: old_but_of_a_package"):
        table.get("old_but_of_a_pakage")


def test_exact_unsupported_name_gives_its_reason_also_near_a_registered_name():
    table = registry.Registry("thing")
    table.add("long_name_task10_10k", 1)
    table.mark_unsupported("long_name_task0_10k", "it has gone")
    with pytest.raises(registry.UnsupportedNameError, match="it has gone"):
        table.get("long_name_task0_10k")


def test_mark_all_unsupported_gives_each_pattern_its_reason():
    table = registry.Registry("thing")
    table.mark_all_unsupported({"old_* older": "it has gone", "new": "it is not here yet"})
    expected = {"old_*": "it has gone", "older": "it has gone", "new": "it is not here yet"}
    assert table.unsupported() == expected


def test_unknown_name_message_lists_names_with_the_same_word():
    known = ["activation_dtype", "act_type", "dtypes_of_other_things", "weight_dtype"]
    message = registry.unknown_name_message("thing", "dtype", known)
    assert message.endswith("names: act_type, activation_dtype, weight_dtype.")


def test_unknown_name_message_lists_few_names():
    message = registry.unknown_name_message("thing", "dtype", ["red", "blue"], "Read the page.")
    assert message == "Unknown thing: 'dtype'. All names: blue, red."


def test_unknown_name_message_says_how_to_list_many_names():
    known = [f"blue{number}" for number in range(30)]
    message = registry.unknown_name_message("thing", "dtype", known, "Read the page.")
    assert message == "Unknown thing: 'dtype'. None of the 30 names is similar. Read the page."


def test_unknown_name_of_each_flag_says_how_to_list_all_names():
    from ut_keras import problems

    for function, call in ((problems.get, "problems"), (hparams.get, "hparams")):
        with pytest.raises(registry.UnknownNameError) as error:
            function("xyz")
        assert f"pass --registry_help, or call {call}.names() in Python." in str(error.value)
    with pytest.raises(ValueError, match="docs/t2t_hparams.md lists all names"):
        hparams.get("transformer_tiny", "xyz=1")


def test_replace_overwrites_an_entry():
    table = registry.Registry("thing")
    table.add("name", 1)
    with pytest.raises(ValueError, match="Received: 'name' twice"):
        table.add("name", 2)
    table.replace("name", 2)
    assert table.get("name") == 2


def test_add_accepts_a_rerun_notebook_cell():
    table = registry.Registry("thing")
    cell = "@table.register('name')\ndef {}(): return {}"
    names = {"__name__": "__main__", "table": table}
    for value in (1, 2):
        exec(cell.format("f", value), names)
    assert table.get("name")() == 2
    with pytest.raises(ValueError, match="Received: 'name' twice"):
        exec(cell.format("g", 3), names)


def test_register_without_a_name_derives_the_name():
    table = registry.Registry("thing")

    @table.register
    class TranslateEnFa8k:
        pass

    @table.register()
    def small_set():
        pass

    assert table.names() == ["small_set", "translate_en_fa8k"]
    assert table.get("translate_en_fa8k") is TranslateEnFa8k
    for wrong in (7, ["name"]):
        with pytest.raises(ValueError, match=r"name must be a string\. Received: "):
            table.register(wrong)


def test_register_without_a_name_accepts_each_callable_object_with_a_name():
    table = registry.Registry("thing")

    class Sets:
        @classmethod
        def large_set(cls):
            return 1

    table.register(Sets.large_set)

    @table.register
    @functools.cache
    def cached_set():
        return 2

    assert table.names() == ["cached_set", "large_set"]
    assert (table.get("cached_set")(), table.get("large_set")()) == (2, 1)


def test_problems_sets_and_models_derive_their_names(registries):
    from ut_keras import hparams, models, problems
    from ut_keras.hparams.registry import SETS
    from ut_keras.models.universal_transformer import UniversalTransformer
    from ut_keras.problems import problem

    @problem.register
    class SmallVocab(problem.Problem):
        pass

    @hparams.register
    def my_tiny():
        return hparams.get("transformer_tiny")

    @models.register
    class MyModel(UniversalTransformer):
        pass

    assert "small_vocab" in problems.names() and SETS.get("my_tiny") is my_tiny
    assert models._CLASSES.get("my_model") is MyModel


def test_name_must_be_a_string():
    """Swapped arguments, as in `models.get(hp, "transformer")`, give a short error."""
    with pytest.raises(registry.UnknownNameError, match=r"must be a string. .*: dict\.$"):
        registry.Registry("model").get({f"hparam_{number}": 64 for number in range(99)})


def test_get_names_the_flag_of_another_kind():
    with pytest.raises(
        registry.UnknownNameError, match="pass --hparams_set=transformer_tiny, or c"
    ):
        models.check_name("transformer_tiny")
    with pytest.raises(
        registry.UnknownNameError, match="'transformer' is a model: .*models.get..transf"
    ):
        hparams.get("transformer")
    message = "For --hparams_set, .* begin with 'adaptive_universal_transformer', such as adaptive_"
    with pytest.raises(registry.UnknownNameError, match=message):
        models.check_name("adaptive_universal_transformer")
    with pytest.raises(registry.UnknownNameError) as error:
        models.check_name("transfomer")
    assert "--" not in str(error.value)
