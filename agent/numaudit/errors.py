"""The errors a user sees: each says what failed, where, why, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_USER_OF_A_URL = re.compile(r"(?<=://)\S*@")
_SHORT = 2
"""Characters that begin too many names to be near one."""
_SEVERAL = 3


def nearest(name: str, known: Iterable[str], but: str = "") -> str:
    """The end of a message about a name that is not known: `; did you mean a, b or c?`, or `but` when none is near.

    A name is also near when it begins nearly as what was given.
    """
    names = tuple(known)
    begun = {one.casefold()[: len(name)]: one for one in names if len(name) > _SHORT}
    by_lower = begun | {one.casefold(): one for one in names}
    near = get_close_matches(name.casefold(), by_lower, n=2 * _SEVERAL)
    close = list(dict.fromkeys(by_lower[one] for one in near))[:_SEVERAL]
    if not close:
        return but
    *first, last = close
    return f"; did you mean {', '.join(first)} or {last}?" if first else f"; did you mean {last}?"


def printable(text: str) -> str:
    """The text on one line: control characters, line ends and bytes that are not UTF-8 as escapes."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    # How Python keeps a byte of a file's name that is not UTF-8 (PEP 383). A codec would be imported at its first use,
    # which fails when no file can be opened, and that is when messages are needed.
    is_byte = 0xDC80 <= ord(char) <= 0xDCFF
    return f"\\x{ord(char) - 0xDC00:02x}" if is_byte else ascii(char)[1:-1]


def without_password(text: str) -> str:
    """The text with every user and password in its URLs hidden, and whatever stands before an @."""
    return _USER_OF_A_URL.sub("(hidden)@", text)


class NumauditError(Exception):
    """A failure with a message meant for the user; printed without a traceback."""


class InputError(NumauditError):
    """What the user gave is wrong: a flag, a file, a scenario. Exit code 2."""


class Unavailable(NumauditError):
    """This host cannot answer: missing hardware, kernel feature or permission.

    A normal answer, shown to the user as it is. Exit code 3 when there is no other answer.
    """


class Absent(Unavailable):
    """There is nothing here that could be asked, and nobody asked for it."""


class ParseError(ValueError):
    """Text from the kernel or a file does not have the form its interface documents."""
