"""Writes the table of problems from their declarations.

python scripts/problems_table.py            writes docs/problems.md
"""

import collections
import fnmatch
import inspect
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(ROOT, "docs")
sys.path.insert(0, ROOT)

from ut_keras import problems  # noqa: E402
from ut_keras.data.tfrecords import DataError  # noqa: E402
from ut_keras.files import whole_file  # noqa: E402
from ut_keras.problems import own_text  # noqa: E402
from ut_keras.problems.problem import Problem  # noqa: E402

# The numbers of examples in train, dev and test, for problems whose numbers depend on the raw data.
# The first matching pattern is used. None means that the split does not exist or that its number of
# examples is unknown.
SIZES = {
    "babi_qa_*_all_tasks_1k_permuted_valid": (360_260, 1_987, 20_000),
    "babi_qa_*_all_tasks_1k_valid": (18_013, 1_987, 20_000),
    "babi_qa_*_all_tasks_10k_valid": (None, None, 20_000),
    "babi_qa_*_valid": (None, None, 1_000),
    "babi_qa_*_all_tasks_1k": (20_000, 20_000, None),
    "babi_qa_*_all_tasks_10k": (200_000, 20_000, None),
    "babi_qa_sentence_single_*_1k": (1_000, 1_000, None),
    "babi_qa_sentence_single_*_10k": (10_000, 1_000, None),
    "babi_qa_*_1k": (20_000, 1_000, None),
    "babi_qa_*_10k": (200_000, 1_000, None),
    "cola*": (8_551, 1_043, None),
    "languagemodel_wikitext103": (1_165_029, 2_461, 2_891),
    "languagemodel_wikitext103_characters": (1_165_029, 2_461, 2_891),
    "msr_paraphrase_corpus*": (7_336, 816, 3_450),
    "multi_nli*": (392_702, 9_815, None),
    "question_nli*": (104_743, 5_463, None),
    "rte*": (2_490, 277, None),
    "sci_tail*": (23_596, 1_304, None),
    "sentiment_imdb*": (25_000, 25_000, None),
    "sentiment_sst_binary*": (67_349, 872, None),
    "sentiment_yelp_full*": (650_000, 50_000, None),
    "sentiment_yelp_polarity*": (560_000, 38_000, None),
    "squad_text2text": (87_599, 10_570, None),
    "stanford_nli*": (549_367, 9_842, None),
    "style_transfer_*": (18_395, 1_218, None),
    "summarize_cnn_dailymail32k": (287_113, 13_368, 11_490),
    "translate_envi_iwslt32k": (133_317, 1_553, None),
    "translate_enro_wmt*": (None, 1_999, None),
    "translate_enet_wmt*": (None, 2_000, None),
    "translate_enzh_wmt8k": (None, 2_002, None),
    "winograd_nli*": (635, 71, None),
    "lambada_*_control": (None, 5_000, 5_153),
    "lambada_*": (None, 4_869, 5_153),
    "languagemodel_lm1b*_packed": (None, None, None),
    "languagemodel_lm1b*": (30_301_028, 6_075, None),
    "languagemodel_ptb*": (42_068, 3_370, 3_761),
    "lte_*": (1_000_000, 2_000, 10_000),
    # The train and dev splits have nine tenths and one tenth of NAME's train examples. The test
    # split is the same as for NAME.
    "scan_*_valid": (None, None, None),
    "scan_filler_num0": (15_225, None, 1_173),
    "scan_filler_num1": (16_290, None, 1_173),
    "scan_filler_num2": (17_391, None, 1_173),
    "scan_filler_num3": (18_528, None, 1_173),
    "scan_simple_p1": (209, None, 20_701),
    "scan_simple_p2": (418, None, 20_492),
    "scan_simple_p4": (836, None, 20_074),
    "scan_simple_p8": (1_673, None, 19_237),
    "scan_simple_p16": (3_346, None, 17_564),
    "scan_simple_p32": (6_691, None, 14_219),
    "scan_simple_p64": (13_382, None, 7_528),
    "scan_simple": (16_728, None, 4_182),
    "scan_length": (16_990, None, 3_920),
    "scan_length_cutoff26": (18_286, None, 2_624),
    "scan_addprim_jump": (14_670, None, 7_706),
    "scan_addprim_turn_left": (21_890, None, 1_208),
    "scan_template_jump_around_right": (18_528, None, 1_173),
    "scan_template_*": (15_225, None, 4_476),
    "sva_*_edinburgh_nlu": (None, 1_000, 4_000),
    "sva_*_gulordava": (None, None, 410),
    "sva_*_linzen_testset": (None, None, 7_489),
    "translate_*_multi30k": (29_000, 1_014, 1_000),
    "translate_*_packed": (None, None, None),
    "translate_enfr_wmt_small*": (1_000_000, None, 3_003),
    "translate_ende_wmt*": (None, 3_000, 3_003),
    "translate_enfr_wmt*": (None, 3_000, 3_003),
    "translate_*_wmt*": (None, 3_000, None),
    "wsj_parsing": (39_832, 1_700, 2_416),
}
USUAL_METRICS = Problem.eval_metrics
_MOST_NAMES = 4
_NUMBER = re.compile(r"(?<=[a-z])\d+(?=_|$)")
# The files of the problems, by task.
_TASKS = {
    "your own files: pairs of texts, one text, classes": ("own_text",),
    "translation": ("translate_multi30k", "translate_wmt", "translate_wmt_bpe"),
    "summaries, paraphrases": ("cnn_dailymail", "paraphrase_ms_coco"),
    "language models": ("lambada", "lm1b", "ptb", "wiki_lm", "wikitext"),
    "classification of texts": ("glue", "sentiment", "subject_verb_agreement"),
    "questions about texts": ("babi_qa", "squad"),
    "commands, programs and formulas": (
        *("algebra", "learning_to_execute", "math_questions", "scan"),
    ),
    "parsing": ("wsj_parsing",),
    "generated strings and digits": (
        *("algorithmic", "column_addition", "formal_languages", "listops", "table_lookup"),
    ),
    "puzzles": ("sudoku",),
}
_COLUMNS = ("problem", "paper", "examples", "vocabulary", "metrics", "licence", "raw files")
_HEAD = """# Problems

A problem is a dataset and the way to convert it to examples. This page lists every problem that
you can pass as `--problem=NAME`. This command generates the data of one problem and prints five
examples:

```text
ut-datagen --problem=NAME --data_dir=… --tmp_dir=… --inspect=5
```

Each section of this page lists the problems of one source file. The file starts with an example
record. These are the sections for each task:

{tasks}

The columns of the following tables are:

- **Problem**: the name. Braces combine several names: `task{{1…20}}` is `task1` to `task20`, and
  `parity{{10,40}}` is `parity10` and `parity40`. In addition, `NAME_rev` exchanges the inputs and
  targets of the text-to-text problem `NAME`.
- **Paper**: the experiment that uses the problem.
- **Examples**: the number of examples in each split. A `?` means that the number depends on the
  raw files.
- **Vocabulary**: the number of tokens. If inputs and targets differ, there are two numbers.
  [own_data.md](own_data.md#vocabulary) describes the vocabulary of your own files.
- **Metrics**: all problems have {usual},
  unless the column says "only". Metrics in italics are computed from features or from decoded
  text. The source file describes them.
- **Licence**: the licence of the raw files. "Generated" means that there are none, because a
  program generates the data.
- **Raw files**: the files that data generation reads from `--tmp_dir`. It downloads missing files
  if this is possible. A problem without raw files generates its data or reads your own files.

If all problems of a section have the same value in a column, the value is above the table.

`scripts/problems_table.py` writes this page from the declarations of the problems.
"""


def problem_names():
    """Return the names of the package's problems, without those that a program registered."""
    ours = "ut_keras.problems"
    return [name for name in problems.names() if _package(problems.get(name)) == ours]


def problems_table():
    """Return the text of problems.md."""
    sections = collections.defaultdict(lambda: collections.defaultdict(list))
    for name in sorted(problem_names(), key=_in_order):
        problem = problems.get(name)
        sections[_module(problem)][_NUMBER.sub("#", name), _cells(problem)].append(name)
    usual = ", ".join(f"`{name}`" for name in USUAL_METRICS)
    tasks = "\n".join(_task_rows(sections))
    head = _HEAD.format(usual=usual, tasks=tasks)
    return head + "".join(map(_section, sections, sections.values()))


def _task_rows(sections):
    """Yield the lines of the table from task to sections.

    Raises:
        ValueError: if a section does not belong to exactly one task.
    """
    listed = [module for modules in _TASKS.values() for module in modules]
    if sorted(listed) != sorted(sections):
        raise ValueError(f"_TASKS must have each of {sorted(sections)} once. Received: {listed}.")
    yield "| task | sections |"
    yield "| --- | --- |"
    for task, modules in _TASKS.items():
        yield f"| {task} | {', '.join(f'[{name}](#problems{name}py)' for name in modules)} |"


def _section(module, groups):
    """Return the text for the problems of one file, with common values above the table."""
    rows = [(_joined(names), *cells) for (_, cells), names in groups.items()]
    columns = [set(column) for column in zip(*rows, strict=True)]
    common = [len(column) == 1 and (len(rows) > 1 or column == {""}) for column in columns]
    links = {file: None for name in _names(groups) for file in problems.get(name).raw_files}
    addresses = dict.fromkeys((file.name, file.url or file.page) for file in links)
    urls = [f"[{name}]({address})" for name, address in addresses if address]
    lines = ["", f"## problems/{module}.py", "", _description(_names(groups)[0]), ""]
    for title, value, is_common in zip(_COLUMNS, rows[0], common, strict=True):
        if is_common and value and not (title == "raw files" and urls):
            lines.append(f"- {title}: {value}")
    if urls:
        lines.append(f"- raw files: {', '.join(urls)}")
    if lines[-1]:
        lines.append("")
    for row in [_COLUMNS, ["---"] * len(_COLUMNS), *rows]:
        cells = [
            cell.replace("|", "\\|") for cell, left in zip(row, common, strict=True) if not left
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _description(name):
    """Return the first line of the docstring of the file that declares a problem."""
    return inspect.getmodule(type(problems.get(name))).__doc__.partition("\n")[0]


def _names(groups):
    return [name for names in groups.values() for name in names]


def _cells(problem):
    """Return all columns except the first column."""
    return (
        problem.paper,
        _examples(problem),
        _vocabulary(problem),
        _metrics(problem),
        problem.licence,
        ", ".join(f"`{raw_file.name}`" for raw_file in problem.raw_files),
    )


def _package(problem):
    return type(problem).__module__.rpartition(".")[0]


def _module(problem):
    return type(problem).__module__.rpartition(".")[2]


def _examples(problem):
    known = next(
        (sizes for pattern, sizes in SIZES.items() if fnmatch.fnmatch(problem.name, pattern)),
        (None, None, None),
    )
    parts = []
    for split, size in zip(("train", "dev", "test"), known, strict=True):
        if split in problem.splits:
            size = size or getattr(problem, f"{split}_size", None)
            size = size or getattr(problem, "sizes", {}).get(split)
            parts.append(f"{split} {size:,}" if size else f"{split} ?")
    return ", ".join(parts)


def _vocabulary(problem):
    kind = getattr(problem, "vocab_type", None)
    if isinstance(problem, own_text.OwnText):
        size = own_text.BYTES_PER_SUBWORD
        return f"one subword per {size} bytes, at most about {problem.approx_vocab_size:,}"
    if kind == "subwords":
        return f"about {problem.approx_vocab_size:,} subwords"
    if kind == "characters":
        return "bytes"
    if kind == "tokens":
        size = problem.approx_vocab_size
        return f"words, at most {size:,}" if size < sys.maxsize else "words"
    try:
        sizes = {encoder.vocab_size for encoder in problem.feature_encoders(None).values()}
    except (TypeError, DataError):
        return "words"  # the vocabulary is in a file that does not exist yet
    return f"{', '.join(map(str, sorted(sizes)))} tokens"


def _metrics(problem):
    names = [f"`{name}`" for name in problem.eval_metrics if name not in USUAL_METRICS]
    if not set(USUAL_METRICS) <= set(problem.eval_metrics):
        names = [f"only `{', '.join(problem.eval_metrics)}`"]
    if type(problem).feature_metrics is not Problem.feature_metrics:
        names.append("*of features*")
    if type(problem).score_decoded is not Problem.score_decoded:
        names.append("*of decoded text*")
    return ", ".join(names)


def _joined(names):
    """Return the names of a table row as text.

    If names differ only in a number, the numbers are in braces.
    """
    if len(names) == 1:
        return f"`{names[0]}`"
    names = sorted(names, key=_in_order)
    numbers = [_NUMBER.search(name) for name in names]
    one = len({name[: n.start()] + name[n.end() :] for name, n in zip(names, numbers, strict=True)})
    if one > 1:
        return ", ".join(f"`{name}`" for name in names)
    words = [number[0] for number in numbers]
    has_gaps = int(words[-1]) - int(words[0]) != len(words) - 1
    is_list = has_gaps or len(words) <= 2 * _MOST_NAMES
    shown = ",".join(words) if is_list else f"{words[0]}…{words[-1]}"
    return f"`{names[0][: numbers[0].start()]}{{{shown}}}{names[0][numbers[0].end() :]}`"


def _in_order(name):
    """Return a sort key that orders names by file, and numbers in names by value."""
    parts = re.split(r"(\d+)", name)
    numbered = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return _module(problems.get(name)), numbered


def main():
    text = problems_table()
    with whole_file.writing(os.path.join(DOCS, "problems.md")) as file:
        file.write(text)


if __name__ == "__main__":
    main()
