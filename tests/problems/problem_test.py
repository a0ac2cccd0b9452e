import subprocess
import sys

import pytest

import problems
from ut_keras import registry


def test_listing_loads_no_tensorflow():
    code = (
        "import sys, problems; assert 'algorithmic_reverse_binary40' in problems.names();"
        "problems.get('algorithmic_reverse_binary40').feature_specs(None);"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="algorithmic_reverse_binary40") as error:
        problems.get("algoritmic_reverse_binary")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", problems.names())
def test_every_problem_can_be_made(name):
    problem = problems.get(name)
    assert problem.name == name
    assert set(problem.splits) <= {"train", "dev", "test"}
    assert {"dev", "test"} & set(problem.splits)
    assert "accuracy" in problem.eval_metrics
