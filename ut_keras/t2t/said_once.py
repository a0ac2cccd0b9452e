"""A line about a package, once: its sets and problems are made several times by a command."""

_said: set[str] = set()


def say(line: str) -> None:
    if line not in _said:
        _said.add(line)
        print(line, flush=True)
