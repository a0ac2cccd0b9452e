import subprocess
import sys

import pytest

from ut_keras import problems, registry
from ut_keras.errors import DataError
from ut_keras.problems import problem, text_problems


def test_listing_problems_does_not_import_tensorflow():
    code = (
        "import sys; from ut_keras import problems;"
        "assert 'algorithmic_reverse_binary40' in problems.names();"
        "problems.get('algorithmic_reverse_binary40').feature_specs(None);"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="algorithmic_reverse_binary40") as error:
        problems.get("algoritmic_reverse_binary")
    assert "\n" not in str(error.value)


def test_registered_name_may_contain_two_names(monkeypatch):
    """T2T before 1.6 joined names by "-". A name of a user may look like this."""
    joined = "algorithmic_reverse_binary40-algorithmic_reverse_decimal40"
    with pytest.raises(registry.UnsupportedNameError, match="2 names as in T2T before 1.6"):
        problems.get(joined)
    one = problems.REGISTRY.get("algorithmic_reverse_binary40")
    monkeypatch.setitem(problems.REGISTRY._entries, joined, one)
    assert problems.get(joined).name == joined


@pytest.mark.parametrize("name", problems.names())
def test_every_problem_can_be_created(name):
    found = problems.get(name)
    assert found.name == name
    assert set(found.splits) <= {"train", "dev", "test"}
    assert {"dev", "test"} & set(found.splits)
    assert "accuracy" in found.eval_metrics


@pytest.mark.parametrize("attribute", ["dataset_splits", "is_generate_per_split"])
def test_register_rejects_t2ts_split_attributes(attribute):
    """Without the error, ut_keras would evaluate a ported problem on its training data."""
    ported = type("Ported", (problem.Problem,), {attribute: property(lambda self: False)})
    with pytest.raises(DataError, match=f"t2t_package.md. Received: {attribute}"):
        problem.register("problem_test_ported")(ported)
    assert "problem_test_ported" not in problems.names()


def test_register_rejects_methods_of_t2t_that_are_not_called(registries):
    """Without the error, the records would lack what the method adds."""
    method = {"generate_text_for_vocab": lambda self, data_dir, tmp_dir: ["a b"]}
    base = text_problems.Text2TextProblem
    ported = type("Ported", (base,), method)
    with pytest.raises(DataError, match="Ported must define texts_for_vocab instead of generate_t"):
        problem.register("problem_test_ported")(ported)
    assert "problem_test_ported" not in problems.names()
    # A class can have both methods, for example if it serves T2T and ut_keras.
    own = {"texts_for_vocab": method["generate_text_for_vocab"]}
    problem.register("problem_test_ported")(type("Ported", (base,), {**method, **own}))
