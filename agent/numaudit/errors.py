"""The errors a user sees: each says what failed, where, why, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

Error = TypeVar("Error", bound=Exception)

_HIDDEN = "(hidden)"
_WORD = re.compile(r"\S+")
_QUERY = re.compile(r"[?#]")
_SCHEME = re.compile(r"^[^:@]*[a-z]:/+|^//+", re.IGNORECASE)
"""With what may stand before a URL, such as a quote or `--config=`."""
_PORT = re.compile(r"[0-9]{1,5}(?![^?#])", re.ASCII)
_ENDS = "'\"`;,.:!)]}>"
"""Characters that may follow a URL in a sentence."""
_SHOWN = 60
_ESCAPE = re.compile(r"[nrt]|x(?:[01][0-9a-f]|7f|[89a-f][0-9a-f])|u[0-9a-f]{4}|U[0-9a-f]{8}")
"""Text after the backslash of an escape. Bytes and characters that can be printed have none."""
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


def escaped(name: str) -> str:
    """A name of the kernel's on one line, as `printable` shows it, and no two names alike.

    A backslash is doubled where it would be read as the beginning of an escape, so names as systemd escapes them
    (`a\\x2db.service`) stay as they are.
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(
        "\\\\" if char == "\\" and _begins_an_escape(name, place) else _escape_apart(char)
        for place, char in enumerate(name)
    )


def _begins_an_escape(name: str, place: int) -> bool:
    after = name[place + 1 : place + 2]
    return after == "\\" or not after.isprintable() or _ESCAPE.match(name, place + 1) is not None


def _escape_apart(char: str) -> str:
    """U+0080 to U+00AD as \\u, for \\x is a byte."""
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if 0x80 <= ord(char) <= 0xFF else _escape(char)


def _escape(char: str) -> str:
    # How Python keeps a byte of a file's name that is not UTF-8 (PEP 383). A codec would be imported at its first use,
    # which fails when no file can be opened, and that is when messages are needed.
    is_byte = 0xDC80 <= ord(char) <= 0xDCFF
    return f"\\x{ord(char) - 0xDC00:02x}" if is_byte else ascii(char)[1:-1]


def hide(value: str) -> str:
    """A value that may be a URL, with what may be secret in it hidden: user and password, query and fragment.

    A password may have any character, and a URL may be wrong. So whatever stands before the last `@` is hidden, and
    whatever follows the first `?` or `#`; a port that is none, for it may be the password of a URL without a host; and
    what follows an empty password, for the `@` may be its first character.
    """
    shown = _hide_user_and_query(value)
    scheme = _SCHEME.match(shown)
    if scheme is None:
        return shown
    authority = shown[scheme.end() :].partition("/")[0]
    host, colon, port = authority.partition(":")
    if not colon or authority.startswith("[") or _PORT.match(port):
        return shown
    return f"{scheme[0]}{host}:{_HIDDEN}"


def brief(value: str) -> str:
    """A user's value for a message: secrets are hidden first, and then it is cut to what people read."""
    return cut(hide(value))


def cut(text: str) -> str:
    """As much of it as people read."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def without_password(text: str) -> str:
    """A message with the secrets in its URLs hidden, as far as these have no space."""
    return _WORD.sub(_hidden_word, text)


def _hidden_word(match: re.Match[str]) -> str:
    word = match[0].rstrip(_ENDS)
    return hide(word) + match[0][len(word) :] if is_like_a_url(word) else match[0]


def may_be_a_file(value: str) -> bool:
    """Is it no URL? `/a:b@c` and `./a:b@c` are files, `a:b@c` may hold a password."""
    is_a_path = value.startswith(("/", "./", "../")) and not value.startswith("//")
    return "://" not in value and (is_a_path or not is_like_a_url(value))


def is_like_a_url(word: str) -> bool:
    """Has it a scheme, or a password before an `@`? A systemd unit (`user@1000.service`) has neither."""
    return "://" in word or ":" in word.rpartition("@")[0]


def _hide_user_and_query(value: str) -> str:
    scheme = _SCHEME.match(value)
    start = 0 if scheme is None else scheme.end()
    rest = value[start:]
    query = _QUERY.search(rest)
    if query is not None and scheme is None and "@" not in rest and "=" not in rest[query.end() :]:
        query = None  # that of a pattern
    end = len(rest) if query is None else query.start()
    at = rest.rfind("@") + 1
    if at > end or rest[:at].endswith(":@"):
        return f"{value[:start]}{_HIDDEN}"
    user = f"{_HIDDEN}@" if at else ""
    return f"{value[:start]}{user}{rest[at:end]}{'' if query is None else f'{query[0]}{_HIDDEN}'}"


class NumauditError(Exception):
    """A failure with a message meant for the user; printed without a traceback."""


class InputError(NumauditError):
    """A wrong input of the user: a flag, a file, a scenario. Exit code 2."""

    field: str = ""
    """Path of the wrong field, where the message, which may be another program's, does not begin with it."""


class Unavailable(NumauditError):
    """This host cannot answer: missing hardware, kernel feature or permission.

    A normal answer, shown to the user as it is. Exit code 3 when there is no other answer.
    """


class Absent(Unavailable):
    """There is nothing here that could be asked, and nobody asked for it."""


class ParseError(ValueError):
    """Text from the kernel or a file does not have the form its interface documents."""


def to_keep(error: Error) -> Error:
    """The error without its tracebacks, which hold all that was in use where it arose, such as open files."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
