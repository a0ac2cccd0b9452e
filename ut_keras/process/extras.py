"""Checks that the packages of an extra are installed, without importing them."""

import importlib.util

from ut_keras.errors import UsageError


def install_hint(extra: str) -> str:
    """Return the sentence of an error message that says how to install an extra.

    Args:
        extra: str, the name of an extra in setup.cfg.
    """
    return f"In your clone of ut_keras, run: pip install -e '.[{extra}]'."


def require(purpose: str, extra: str, *packages: str) -> None:
    """Raise `UsageError` if a package is missing.

    Args:
        purpose: str, the name of the feature that requires the packages, for the message.
        extra: str, the extra in setup.cfg that installs the packages.
        packages: the names under which Python imports the packages.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{purpose} requires {' and '.join(packages)}. Received: no "
            f"{' and no '.join(missing)}. {install_hint(extra)}"
        )
