"""Parses a command line according to a table of flags, without TensorFlow.

    args = command_line.parse(flags.BLEU, argv, "ut-bleu", __doc__)

These spellings are accepted: --flag=value, --flag value, --switch, --noswitch, --switch=True, one
dash in place of two, and T2T's --hp_NAME=value. For an unsupported flag (`Flag.unsupported`), only
the default value is accepted.
"""

import argparse
import dataclasses
import difflib
import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ut_keras import registry
from ut_keras.errors import UsageError
from ut_keras.hparam_schema import limits


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag of a command."""

    name: str
    # The value if the flag is absent. If `type` is None, the type of this value is used.
    default: Any
    help: str = ""
    type: Any = None  # type of the value, or a function that converts str to the value
    # Allowed values in addition to ""; () means that any value is allowed.
    choices: tuple[str, ...] = ()
    # Pairs of (another name, allowed value), for the error of a value that is not allowed.
    other_names: tuple[tuple[str, str], ...] = ()
    unsupported: str = ""  # the reason why only the default is accepted; "" for a supported flag
    # True for an unsupported flag that T2T 1.15 does not have in this command. The command does not
    # define such a flag, so a user's package may define it. The flag exists only for its error.
    is_only_for_error: bool = False
    # The smallest allowed number; None means the limit of 32-bit numbers.
    least: float | None = None
    most: float | None = None  # the largest allowed number; None means the limit of 32-bit numbers

    @property
    def value_type(self) -> Any:
        """The type of the flag's value, or the function that converts a text to the value."""
        return self.type or type(self.default)


def parse(
    table: Iterable[Flag],
    argv: Sequence[str],
    program: str,
    description: str,
    others: list[str] | None = None,
) -> argparse.Namespace:
    """Parse a command line into a namespace with a value for every flag of the table.

    `--help` prints the help and exits.

    Args:
        table: the flags.
        argv: list of str, without the program's name.
        program, description: str, for --help.
        others: list. Arguments that belong to no flag of the table are appended to this list. If
            it is None, these arguments raise an error.

    Raises:
        UsageError: in one of these cases:
            - A flag is unknown. The message lists the nearest names.
            - An unsupported flag does not have its default value.
            - A value has the wrong type, is out of range, or is not one of the choices.
    """
    parser = _Parser(
        prog=program,
        usage=f"{program} --flag=value …",
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # absl also accepts these names in place of --help.
    parser.add_argument("--helpfull", "--helpshort", action="help", help=argparse.SUPPRESS)
    own_flags = [flag for flag in table if not flag.is_only_for_error]
    for flag in own_flags:
        _add(parser, flag)
    argv, hparams = [_two_dashes(word) for word in argv], []
    if any(flag.name == "hparams" for flag in own_flags):
        argv, hparams = _split_hparam_flags(argv)
    values, unknown = parser.parse_known_args(argv)
    if unknown and others is None:
        raise_unknown(unknown[0], table)
    elif others is not None:
        others += unknown
    for flag in own_flags:
        _check_value(flag, getattr(values, flag.name.replace("-", "_")))
    if hparams:
        values.hparams = ",".join(filter(None, [values.hparams, *hparams]))
    return values


def _check_value(flag, value):
    if flag.unsupported and value != flag.default:
        raise UsageError(
            f"--{flag.name} is not supported: {flag.unsupported}. Received: {value!r}."
        )
    if value and flag.choices and value not in flag.choices:
        choices = ", ".join(flag.choices)
        nearest = nearest_choice(value, flag.choices, flag.other_names)
        raise UsageError(f"--{flag.name} must be one of {choices}. Received: {value!r}.{nearest}")
    if flag.value_type in (int, float) and value is not None:
        expected = limits.unmet_limit(value, flag.least, flag.most)
        if expected:
            raise UsageError(f"--{flag.name} must be {expected}. Received: {value}.")


def path(text: str) -> str:
    """Return a path with "~" expanded.

    An address such as gs://bucket raises an error, because Python would use the address as a local
    folder named "gs:".
    """
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"expected a local path (a bucket must be mounted). Received: {text!r}"
        )
    return os.path.expanduser(text)


AUTO = "auto"


def auto_or_boolean(text: str) -> bool | str:
    """Return "auto", or the bool that the text means."""
    if text.lower() == AUTO:
        return AUTO
    return _boolean(text, f"{AUTO}, True or False")


REGISTERED_NAME = "a name, as listed by --registry_help"


def require(args: argparse.Namespace, *names: str, what: str = "") -> None:
    """Raise `UsageError` if a required flag has no value.

    Args:
        args: the flags.
        *names: str, the required flags. The message names every flag that has no value.
        what: str. A description of the missing value, for the message. Optional.
    """
    missing = [f"--{name}" for name in names if not getattr(args, name)]
    if missing:
        *others, last = missing
        listed = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        raise UsageError(f"{listed} required{what and ': '}{what}.")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message[0].upper()}{message[1:]}.")


def _add(parser, flag):
    default = "" if flag.default in (None, "", False, -1) else f" Default: {flag.default}."
    text = argparse.SUPPRESS if flag.unsupported else (flag.help + default).replace("%", "%%")
    options = {"default": flag.default, "help": text, "dest": flag.name.replace("-", "_")}
    if flag.value_type in (bool, auto_or_boolean):
        convert = _boolean if flag.value_type is bool else auto_or_boolean
        parser.add_argument(
            f"--{flag.name}", nargs="?", const=True, type=convert, metavar="BOOL", **options
        )
        options["help"] = argparse.SUPPRESS
        parser.add_argument(f"--no{flag.name}", action="store_false", **options)
    else:
        action = _LastOverrides if flag.name in _OVERRIDES else "store"
        parser.add_argument(
            f"--{flag.name}", type=flag.value_type, metavar="VALUE", action=action, **options
        )


# Flags that users may repeat because they expect that the values are joined.
_OVERRIDES = ("hparams", "decode_hparams", "t2t_usr_dir")


class _LastOverrides(argparse.Action):
    """Stores a flag's last value, and prints a note if it replaces another value.

    A user may expect that the values of `--hparams=a=1 --hparams=b=2` are joined.
    """

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest)
        if before not in (self.default, values):
            print(
                f"note: {option_string} is given more than once. As in T2T, only the last value "
                f"has an effect: {values!r}, not {before!r}",
                flush=True,
            )
        setattr(namespace, self.dest, values)


def nearest_choice(
    value: str, choices: Iterable[str], other_names: Iterable[tuple[str, str]] = ()
) -> str:
    """Return a sentence that names the allowed value nearest to `value`, or "".

    Args:
        value: str, the user's value.
        choices: the allowed values.
        other_names: pairs of (another name, allowed value).
    """
    names = {**{choice: choice for choice in choices}, **dict(other_names)}
    found = difflib.get_close_matches(value.lower(), names, n=1)
    return f" The nearest value: {names[found[0]]}." if found else ""


def _boolean(text, expected="True or False"):
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"expected {expected}. Received: {text!r}")
    return words[text.lower()]


def _two_dashes(word):
    is_flag = word.startswith("-") and not word.startswith("--") and word[1:2].isalpha()
    return f"-{word}" if is_flag and word != "-h" else word


def _split_hparam_flags(argv):
    """Separate the `--hp_NAME value` flags from the other arguments.

    Returns:
        (the other arguments, list of name=value pairs).
    """
    rest, pairs = [], []
    words = iter(argv)
    for word in words:
        if not word.startswith("--hp_"):
            rest.append(word)
            continue
        name, has_value, value = word.removeprefix("--hp_").partition("=")
        pairs.append(f"{name}={value if has_value else next(words, '')}")
    return rest, pairs


def raise_unknown(word: str, table: Iterable[Flag]) -> NoReturn:
    """Raise `UsageError` for an argument that belongs to no flag.

    The message lists the nearest flags. If the argument is the name of an hparam, the message names
    the flag for hparams.
    """
    if not word.startswith("--"):
        raise UsageError(
            f"Each argument must be a flag or the value of a flag. Received: {word!r}. A value "
            "with spaces requires quotes. Hparams are separated by commas: --hparams=a=1,b=2."
        )
    name = word.partition("=")[0].removeprefix("--")
    flags = {flag.name: flag for flag in table}
    if name in flags:
        raise UsageError(f"--{name} is not supported: {flags[name].unsupported}.")
    hints = [hint for hint in (_field_hint(name, flags), _nearest_flags(name, flags)) if hint]
    raise UsageError(f"Unknown flag: '--{name}'. {' '.join(hints) or '--help lists all flags.'}")


def _field_hint(name, flags):
    """Return a sentence with the flag that sets the hparam `name`.

    For other names, the result is "".
    """
    from ut_keras import hparam_schema
    from ut_keras.inference import decode_hparams

    hparams = {f.name for cls in hparam_schema.classes() for f in dataclasses.fields(cls)}
    decoding = {**decode_hparams.DECODER, **decode_hparams.OLDER_WITHOUT_EFFECT}
    fields = {"hparams": hparams, "decode_hparams": decoding}
    # Early versions of T2T, such as 1.2.0, have flags such as --decode_beam_size.
    if "decode_hparams" in flags and name.removeprefix("decode_") in decoding:
        name = name.removeprefix("decode_")
    use = [f"--{flag}={name}=…" for flag in fields if flag in flags and name in fields[flag]]
    return f"Use {' or '.join(use)}." if use else ""


def _nearest_flags(name, flags):
    """Return a sentence that lists the supported flags nearest to `name`, or ""."""
    names = [flag.name for flag in flags.values() if not flag.unsupported]
    near = registry.nearest_names(name, names)
    return registry.nearest_names_sentence([f"--{each}" for each in near])
