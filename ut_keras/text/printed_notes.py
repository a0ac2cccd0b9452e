"""Print notes that several calls may repeat, without importing TensorFlow."""

_printed: set[str] = set()


def print_once(line: str) -> None:
    """Print a line unless it was printed before.

    A command may read the same file, or create the same problem, several times.
    """
    if line not in _printed:
        _printed.add(line)
        print(line, flush=True)
