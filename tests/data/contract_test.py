"""ut-datagen reports invalid attributes and samples of a user's problem in one line."""

import pytest

from tests.bin import small_run
from ut_keras.bin import datagen

_T2T = """import itertools, sys
from tensor2tensor.data_generators import problem, text_encoder, text_problems
from tensor2tensor.utils import registry

class Base(text_problems.Text2TextProblem):
    approx_vocab_size = 2**8
    is_generate_per_split = True
    dataset_splits = [{"split": "train", "shards": 2}, {"split": "eval", "shards": 1}]
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(30):
            yield {"inputs": f"word {number}", "targets": f"a {number}", "label": number % 2}

class Classes(text_problems.Text2ClassProblem, Base):
    num_classes = 2
    dataset_splits = Base.dataset_splits
    is_generate_per_split = True
    generate_samples = Base.generate_samples

@registry.register_problem
class Mine(Base):
    """
_OURS = """import itertools, sys
from ut_keras.problems import problem, text_problems
from ut_keras.text import text_encoder

class Base(text_problems.Text2TextProblem):
    num_train_shards = 2
    approx_vocab_size = 2**8
    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for number in range(30):
            yield {"inputs": f"word {number}", "targets": f"a {number}"}

Classes = Base

@problem.register("mine")
class Mine(Base):
    """
_CHARACTERS = "vocab_type = 'character'\n    "
_ITSELF = "@property\n    def use_vocab_from_other_problem(self): return Mine()"


def _samples(code):
    return f"def generate_samples(self, *where, **how):\n        {code}"


def _ids(ids):
    return (
        "class Encoder(text_encoder.TextEncoder):\n"
        f"        def encode(self, text): return {ids}\n"
        "    def feature_encoders(self, data_dir):\n"
        "        return {name: self.Encoder() for name in ('inputs', 'targets')}\n"
        "    def get_or_create_vocab(self, *where, **how): return self.Encoder()"
    )


def _made_ids(ids):
    return (
        f"{_CHARACTERS}def generate_encoded_samples(self, *where):\n"
        f"        yield {{'inputs': {ids}, 'targets': [5, 1]}}"
    )


@pytest.fixture
def run(tmp_path, registries):
    """Return a function that writes a user's package and runs ut-datagen on its problem."""

    def main(source, *argv):
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__init__.py").write_text(source)
        folders = [f"--{name}_dir={tmp_path}/{name}" for name in ("data", "tmp")]
        argv = ["--problem=mine", f"--t2t_usr_dir={tmp_path}/package", *folders, *argv]
        return datagen.main(argv)

    return main


def _remaining_files(tmp_path):
    """Return the names of the files in a folder, except Python's compiled modules."""
    paths = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sorted(path.name for path in paths)


def _assert_rejected(run, tmp_path, capsys, source, expected):
    line = small_run.error(capsys, run, source)
    assert expected in line and "Traceback" not in line
    assert not [name for name in _remaining_files(tmp_path) if "mine-" in name]
    return line


@pytest.mark.parametrize(
    "body, expected",
    [
        ("dataset_splits = [{'split': 'train', 'shards': 0}]", '"shards": an int from 1'),
        ("dataset_splits = [{'split': 'train', 'shards': -1}]", "'shards': -1"),
        (f"dataset_splits = [{{'split': 'train', 'shards': {10**7}}}]", "to 10000"),
        ("dataset_splits = [{'split': 'train', 'shards': '2'}]", "'shards': '2'"),
        ("dataset_splits = [{'split': 'train', 'shards': 2.0}]", "'shards': 2.0"),
        ("dataset_splits = [{'split': 'train'}]", "dataset_splits of Mine must be"),
        ("dataset_splits = [{'split': 'dev', 'shards': 1}]", "one of train, eval, test"),
        ("dataset_splits = [{'split': ['train'], 'shards': 1}]", "one of train, eval, test"),
        ("dataset_splits = Base.dataset_splits * 2", "without duplicates"),
        ("dataset_splits = 3", "dataset_splits of Mine must be a list"),
        ("dataset_splits = []", "dataset_splits of Mine must be a list"),
        ("approx_vocab_size = 'many'", "approx_vocab_size of Mine must be an int"),
        ("approx_vocab_size = 0", "approx_vocab_size of Mine must be an int"),
        ("approx_vocab_size = 2.0**8", "Received: 256.0"),
        ("max_samples_for_vocab = -1", "max_samples_for_vocab of Mine must be an int"),
        ("max_subtoken_length = '3'", "max_subtoken_length of Mine must be an int"),
        ("additional_reserved_tokens = [3]", "additional_reserved_tokens of Mine must be a list"),
        ("additional_reserved_tokens = '<a>'", "additional_reserved_tokens of Mine must be a list"),
        ("additional_reserved_tokens = ['\\n']", "each item a line of text"),
        ("additional_reserved_tokens = ['\\udc00']", "each item a line of text"),
        ("def dataset_filename(self): return '/tmp/x'", "dataset_filename of Mine must be"),
        ("def dataset_filename(self): return None", "dataset_filename of Mine must be"),
        ("vocab_filename = '../vocab'", "a file name that stays inside its folder"),
        ("vocab_filename = '/tmp/vocab'", "vocab_filename of Mine must be"),
        ("vocab_filename = 3", "vocab_filename of Mine must be"),
        (_ITSELF, "use_vocab_from_other_problem of Mine must be a problem"),
        (f"vocab_type = 'tokens'\n    {_ITSELF}", "use_vocab_from_other_problem of Mine must be"),
        ("use_vocab_from_other_problem = 'tiny_algo'", "must be a problem"),
        ("vocab_type = 'bytes'", "vocab_type of Mine must be one of character, tokens, subwords"),
        ("vocab_type = ['bytes']", "vocab_type of Mine must be one of"),
        ("is_generate_per_split = 'no'", "is_generate_per_split of Mine must be True or False"),
        ("packed_length = 'x'", "packed_length of Mine must be an int"),
        ("inputs_prefix = 3", "inputs_prefix of Mine must be"),
        ("def eval_metrics(self): return 'accuracy'", "eval_metrics of Mine must be a list"),
        ("def eval_metrics(self): return [3]", "eval_metrics of Mine must be a list"),
        ("def example_reading_spec(self): return {}", "example_reading_spec of Mine must be"),
        ("generate_samples = []", "generate_samples of Mine must be a method"),
        ("pass\nclass Mine(Classes):\n    num_classes = 0", "num_classes of Mine must be an int"),
        ("pass\nclass Mine(Classes):\n    num_classes = '2'", "num_classes of Mine must be"),
    ],
)
def test_attributes_of_t2t_problem_are_checked(run, tmp_path, capsys, body, expected):
    source = _T2T + body
    if "Classes)" in body:
        source = source.replace("@registry.register_problem\n", "", 1).replace(
            "pass\nclass", "pass\n@registry.register_problem\nclass"
        )
    _assert_rejected(run, tmp_path, capsys, source, expected)
    assert _remaining_files(tmp_path) == ["__init__.py"]


@pytest.mark.parametrize(
    "body, expected",
    [
        ("num_train_shards = 0", "num_train_shards of Mine must be an int from 1 to 10000"),
        ("num_train_shards = -1", "Received: -1"),
        (f"num_train_shards = {10**7}", "num_train_shards of Mine must be an int from 1 to 10000"),
        ("num_train_shards = '2'", "num_train_shards of Mine must be an int"),
        ("def num_shards(self, split): return 0", "num_shards of mine must be an int"),
        ("def splits_to_generate(self, tmp_dir): return 'train'", "splits_to_generate of mine"),
        ("def splits_to_generate(self, tmp_dir): return ()", "splits_to_generate of mine must be"),
        ("splits = 'train'", "splits of Mine must be a list"),
        ("splits = ('train', 'eval')", "each item one of train, dev, test"),
        ("splits = ('train', 'train')", "without duplicates"),
        ("splits = (['train'],)", "splits of Mine must be a list"),
        ("eval_metrics = 'accuracy'", "eval_metrics of Mine must be a list"),
        ("target_space_id = 'x'", "target_space_id of Mine must be an int from 0 to 31"),
        ("max_length = -1", "max_length of Mine must be an int"),
        ("packed_length = 2.5", "packed_length of Mine must be an int"),
        ("filename = '../x'", "filename of Mine must be a file name"),
        ("def side_files(self): return ['/tmp/x']", "side_files of Mine must be a list"),
        ("vocab_filename = '../vocab'", "each item a file name that stays inside its folder"),
        ("vocab_name = 'a/b'", "vocab_name of Mine must be a file name"),
        ("approx_vocab_size = 'many'", "approx_vocab_size of Mine must be an int"),
        ("vocab_type = 'character'", "vocab_type of Mine must be one of subwords"),
        ("max_samples_for_vocab = 0", "max_samples_for_vocab of Mine must be an int"),
        ("class_labels = (1, 2)", "class_labels of Mine must be a list, each item a line of text"),
        ("class_labels = ('a', 'a')", "without duplicates"),
        ("def feature_encoders(self, data_dir): return {'targets': 3}", "a text encoder"),
        ("def feature_encoders(self, data_dir): return None", "feature_encoders of mine must be"),
        ("generate_samples = None", "generate_samples of Mine must be a method"),
        (
            "def generate_samples(self, data_dir, tmp_dir, dataset_split): return ()",
            "(split, data_dir, tmp_dir, seed). Received: (data_dir, tmp_dir, dataset_split). T2T's",
        ),
        (
            "def class_labels(self, data_dir): return ['a', 'b']",
            "Received: a method. Write an attribute of the class, or a property.",
        ),
    ],
)
def test_attributes_of_problem_are_checked(run, tmp_path, capsys, body, expected):
    _assert_rejected(run, tmp_path, capsys, _OURS + body, expected)


@pytest.mark.parametrize("head", [_T2T, _OURS], ids=["t2t", "ours"])
@pytest.mark.parametrize(
    "code, expected",
    [
        ("sys.exit(0); yield", "SystemExit: 0 ("),
        ("yield {'inputs': 'a', 'targets': 'a'}; sys.exit(0)", "SystemExit: 0 ("),
        ("sys.exit(); yield", "SystemExit ("),
        ("sys.exit('no such corpus')", "SystemExit: no such corpus ("),
        ("raise KeyError('corpus')", "KeyError: 'corpus' ("),
        ("open('/nowhere/corpus')", "FileNotFoundError: "),
        ("return None", "an iterable of samples. Received: None"),
        ("return 'text'", "an iterable of samples. Received: 'text'"),
        ("return {}", "an iterable of samples. Received: {}"),
        ("return iter(())", "at least one text. Received: none"),
        ("yield 'text'", "Received: 'text'"),
        ("yield {'inputs': 3, 'targets': 'a'}", "text"),
        ("yield {'inputs': '\\ud800', 'targets': 'a'}", "UTF-8"),
        ("yield {'inputs': b'a', 'targets': 'a'}", "b'a'"),
        ("yield {'inputs': 'a', 'targets': lambda: 0}", "<function "),
    ],
)
def test_generate_samples_is_checked(run, tmp_path, capsys, head, code, expected):
    """The error message names the file and the line of the user's package."""
    line = _assert_rejected(run, tmp_path, capsys, head + _samples(code), expected)
    if expected.endswith("("):
        at = len((head + _samples(code)).splitlines())
        assert f"{tmp_path}/package/__init__.py, line {at})" in line
    assert not list(tmp_path.glob("data/*"))


def test_sample_with_t2t_name_of_the_class_is_rejected(run, tmp_path, capsys):
    source = _OURS.replace(
        "Base(text_problems.Text2TextProblem)", "Base(text_problems.Text2ClassProblem)"
    )
    source += _samples("yield {'inputs': 'a', 'label': 1}")
    expected = "a dict with the text 'targets'. Received: {'inputs': 'a', 'label': 1}."
    _assert_rejected(run, tmp_path, capsys, source, expected)


@pytest.mark.parametrize("head", [_T2T, _OURS], ids=["t2t", "ours"])
@pytest.mark.parametrize(
    "ids", ["[2.5]", "['7']", "[2**70]", "[-2**70]", "[None]", "3", "'ab'", "[[3]]", "[-1]"]
)
def test_ids_of_user_encoder_are_checked(run, tmp_path, capsys, head, ids):
    _assert_rejected(run, tmp_path, capsys, head + _ids(ids), "ids of ")


@pytest.mark.parametrize("ids", ["[2.5]", "['7']", "[2**70]", "[None]", "3", "'ab'", "[[3]]"])
def test_ids_of_generate_encoded_samples_are_checked(run, tmp_path, capsys, ids):
    _assert_rejected(run, tmp_path, capsys, _T2T + _made_ids(ids), "ids of ")


_ENDLESS = _samples(
    "for number in itertools.count():\n"
    "            yield {'inputs': f'word {number}', 'targets': f'a {number}'}"
)


@pytest.mark.parametrize("head", [_T2T, _OURS], ids=["t2t", "ours"])
@pytest.mark.parametrize("how", ["", "is_generate_per_split = False\n    ", _CHARACTERS])
def test_max_cases_limits_endless_generator(run, capsys, head, how):
    """The limit applies to the texts for a vocabulary, to one split and to all splits together."""
    if head is _OURS:
        how = how.replace("character", "characters").replace("is_generate_per_split = False", "")
    assert run(head + how + _ENDLESS, "--max_cases=50") == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "wrote" in line]
    assert "wrote 34 train, 16 dev" in line if "False" in how else "50 train, 50 dev" in line
