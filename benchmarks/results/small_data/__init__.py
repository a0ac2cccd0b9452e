"""Problems for the tables of docs/results.md that use a small part of a paper's data.

The trainer imports this package with `--t2t_usr_dir=benchmarks/results/small_data`. The names of
the problems differ from the names of the complete problems. So a data folder can contain the data
files of both.
"""

from . import agreement, lambada  # noqa: F401  the import registers the problems
