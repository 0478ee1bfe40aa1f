"""The errors a user sees: each says what failed, where, why, and what to do."""


def printable(text: str) -> str:
    """The text on one line: control characters, line ends and broken UTF-8 as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class NumauditError(Exception):
    """A failure with a message meant for the user; printed without a traceback."""


class InputError(NumauditError):
    """What the user gave is wrong: a flag, a file, a scenario. Exit code 2."""


class Unavailable(NumauditError):
    """This host cannot answer: missing hardware, kernel feature or permission.

    A normal answer, shown to the user as it is. Exit code 3 when there is no other answer.
    """


class ParseError(ValueError):
    """Text from the kernel or a file does not have the form its interface documents."""
