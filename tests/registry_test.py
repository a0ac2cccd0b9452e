import pytest

from ut_keras import registry


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
