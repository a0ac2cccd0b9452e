"""Words that this project's text does not use, each with the term to use instead.

`glossary_test.py` reads Markdown, docstrings, comments and messages for the patterns in
`REPLACEMENTS`. `ALLOWED` lists the few texts in which a pattern is right.
"""

# Pattern (a regular expression; case does not matter) -> what to write instead.
REPLACEMENTS = {
    r"\btold\b": "given, logged or reported (name who reports)",
    r"\b(is|are|was|were) (said|asked)\b": "given, reported or requested (name who does it)",
    r"\brefus(e|es|ed|al|als|ing)\b": "raise, reject, or 'is not supported'",
    r"\b(go|goes|going|went|gone) on\b": "resume or continue",
    r"\b(some|no)body('s)?\b": "name the person, process or object: the user, another process",
    r"\b(whoever|whomever|whosever)\b": "name the person or process",
    r"\b(ours|theirs)\b": "ut_keras', T2T's, the caller's",
    r"\bown room\b|\brooms\b": "per-example length limit; maximum output length",
    r"\bat hand\b": "available",
    r"\bcom(e|es|ing) along\b": "ships with the package",
    r"\bwork(s|ed|ing)? out\b": "compute",
    r"\b(leave|leaves|leaving|left) out\b": "skip, prune, omit",
    r"\blets? go of\b": "prune, free",
    r"\btall(y|ies)\b": "auxiliary loss",
    r"\bwhat is there\b": "name the thing: the checkpoint, the file",
    r"\bwhose it is\b": "name the owner",
    r"\bnone of (ours|them ours)\b": "name the thing that is missing",
    r"\bdrawn (at random|by|from|anew)\b": "sampled",
    r"\bin front of\b": "before",
    r"\bbut for\b": "except for",
    r"(^|[.;:] )of (a|an|the|each|every|all) \w+,? (it|this|that|they|there|has|have|is|are)\b": (
        "begin with the subject: 'A decoder has …'"
    ),
}

# (path prefix, words of the text) in which a pattern is right.
ALLOWED = [
    ("tests/docs/glossary.py", ""),
]

# Files and folders whose text follows the glossary. A folder that is missing here still waits to
# be rewritten.
CHECKED: list[str] = [
    "hparams",
    "pretrained",
    "problems",
    "tests/checkpoints",
    "tests/data",
    "tests/decoding",
    "tests/hparam_schema",
    "tests/hparams",
    "tests/inference",
    "tests/layers",
    "tests/metrics",
    "tests/models",
    "tests/ops",
    "tests/optimizers",
    "tests/pretrained_test.py",
    "tests/problems",
    "tests/process",
    "tests/t2t",
    "tests/t2t_import_test.py",
    "tests/text",
    "tests/trainer_test.py",
    "tests/training",
    "tests/visualize",
    "trainer.py",
    "ut_keras/bin",
    "ut_keras/checkpoints",
    "ut_keras/data",
    "ut_keras/decoding",
    "ut_keras/errors.py",
    "ut_keras/export.py",
    "ut_keras/files/__init__.py",
    "ut_keras/files/file_error.py",
    "ut_keras/files/json_file.py",
    "ut_keras/files/metrics_file.py",
    "ut_keras/files/unpacking.py",
    "ut_keras/files/whole_file.py",
    "ut_keras/hparam_schema",
    "ut_keras/inference",
    "ut_keras/keras_file.py",
    "ut_keras/layers",
    "ut_keras/metrics",
    "ut_keras/models",
    "ut_keras/ops",
    "ut_keras/optimizers",
    "ut_keras/parts.py",
    "ut_keras/process",
    "ut_keras/registry.py",
    "ut_keras/t2t",
    "ut_keras/t2t_import.py",
    "ut_keras/text",
    "ut_keras/training",
    "ut_keras/visualize",
]
