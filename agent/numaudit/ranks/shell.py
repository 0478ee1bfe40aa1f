"""The simple commands in the text of `sh -c`. A text that is not understood has none.

Source: bash(1), su(1). Words are split as a shell does; nothing is expanded.
"""

from __future__ import annotations

import getopt
import re
import shlex
from collections.abc import Iterator, Sequence

_SHELLS = re.compile(r"-?(?:ba|da|z|k|a)?sh", re.ASCII)
_LONGEST = 64 << 10
_BETWEEN = "();&|\n"
_UNCLEAR = re.compile(r"<<|[^\s;&|()'\"]#", re.ASCII)
"""A here-document, whose lines are no commands; or a `#` within a word, where shlex would see a comment."""


def text_of(words: Sequence[str]) -> str | None:
    """Text that a shell with this command line runs; None = it is no shell, or runs a file."""
    name, *rest = words or [""]
    base = name.rpartition("/")[2]
    if base in ("su", "runuser"):
        return _of_su(rest)
    if base == "busybox" and rest:
        base, *rest = rest
    return _of_shell(rest) if _SHELLS.fullmatch(base) else None


def _of_su(words: Sequence[str]) -> str | None:
    try:
        found, _ = getopt.gnu_getopt(list(words), "c:fg:G:lmpPs:w:", ["command=", "session-command=", "login"])
    except getopt.GetoptError:
        return None
    return next((value for name, value in found if name in ("-c", "--command", "--session-command")), None)


def _of_shell(words: Sequence[str]) -> str | None:
    """Options may be joined (`-ec`); `o` and `O` take the next word, as `-o pipefail`."""
    has_text, place = False, 0
    while place < len(words) and len(words[place]) > 1 and words[place][0] in "-+":
        word = words[place]
        place += 1
        if word == "--":
            break
        if word.startswith("--"):
            place += word in ("--rcfile", "--init-file")
            continue
        has_text |= word[0] == "-" and "c" in word
        place += word.count("o") + word.count("O")
    return words[place] if has_text and place < len(words) else None


def commands(text: str) -> Iterator[list[str]]:
    """Each with its words, the redirections left out; shell keywords and assignments are words."""
    if len(text) > _LONGEST or _UNCLEAR.search(text):
        return
    # shlex drops a comment with its newline, which ends a command.
    lines = text.replace("\\\n", "").replace("\n", "\n\n")
    lexer = shlex.shlex(lines, posix=True, punctuation_chars=f"{_BETWEEN}<>")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation that does not end
        return
    words: list[str] = []
    skips = False
    for token in tokens:
        if token and set(token) <= set("<>&|") and not set(token) <= set("&|"):
            skips = True
        elif token and set(token) <= set(f"{_BETWEEN}<>"):
            yield words
            words, skips = [], False
        elif skips:
            skips = False
        else:
            words.append(token)
    yield words
