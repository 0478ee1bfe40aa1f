"""Options of a command line that the table of launchers knows. All other words are dropped at once.

A command line may be hostile: it may be long, not text, and hold passwords. So a word is kept only if it is a known
option of a known program, and its value only in the form that the option has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from numaudit.ranks.declaration import Given
from numaudit.ranks.launcher import Option, Program

MOST_WORDS = 4096
_SHELLS = re.compile(r"(?:ba|da|z|k|a)?sh|busybox", re.ASCII)
_IN_SHELL = re.compile(r"[^\s;&|()'\"`]+")
_AT_ONCE = re.compile(r"(?<![>&])&(?![>&])|(?<!\|)\|(?!\|)")
"""Separates commands of a shell that run at the same time."""
_PREFIX = 2


def given(raw: bytes, programs: Sequence[Program]) -> tuple[Given, ...]:
    """`raw`: /proc/PID/cmdline, or a beginning of it."""
    found = _words(raw)
    return () if not found else tuple(_given(found, programs))


def _words(raw: bytes) -> list[str]:
    """Words of it, or those of the text of `sh -c`: none where that runs commands at the same time, for it is not known
    which of them a descendant is of."""
    words = [one.decode("ascii", "replace") for one in raw.removesuffix(b"\0").split(b"\0", MOST_WORDS)[:MOST_WORDS]]
    if len(words) > _PREFIX and _SHELLS.fullmatch(_base(words[0])) and words[1].startswith("-") and "c" in words[1]:
        return [] if _AT_ONCE.search(words[2]) else _IN_SHELL.findall(words[2])[:MOST_WORDS]
    return words


def _given(words: Sequence[str], programs: Sequence[Program]) -> Iterator[Given]:
    any_program = [one for one in programs if one.named is None]
    current: list[tuple[Program, int]] = [(one, 0) for one in any_program]
    seen: dict[str, int] = {}
    fresh: set[str] = set()
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        is_option = word.startswith("-")
        named = [] if is_option else _named_so(programs, _base(word))
        if named:
            for program in named:
                seen[program.kind] = seen.get(program.kind, -1) + 1
            current = [*((one, 0) for one in any_program), *((one, seen[one.kind]) for one in named)]
            fresh = {one.kind for one in named}
            continue
        if not is_option:
            yield from _first(word, [pair for pair in current if pair[0].kind in fresh])
            fresh.clear()
            current = [pair for pair in current if not pair[0].is_getopt]
            continue
        fresh.intersection_update(one.kind for one, _ in current if one.is_getopt)
        for program, occurrence in current:
            used = 0
            for option, value in _options(program, word, words, place):
                used = max(used, 0 if option.keep is None else 1)
                kept = "" if option.keep is None else option.keep(value) if value is not None else None
                if kept is not None:
                    yield Given(program.kind, occurrence, option.name, kept)
            if program.is_getopt and used and _takes_next(program, word):
                place += 1


def _named_so(programs: Sequence[Program], base: str) -> list[Program]:
    return [one for one in programs if one.named is not None and one.named.fullmatch(base)]


def _first(word: str, programs: Sequence[tuple[Program, int]]) -> Iterator[Given]:
    for program, occurrence in programs:
        option = program.first
        kept = None if option is None or option.keep is None else option.keep(word)
        if option is not None and kept is not None:
            yield Given(program.kind, occurrence, option.name, kept)


def _options(program: Program, word: str, words: Sequence[str], place: int) -> Iterator[tuple[Option, str | None]]:
    """The options in one word, each with its value; None = it has none."""
    head, equals, attached = word.partition("=")
    following = words[place] if place < len(words) else None
    if program.is_getopt and not word.startswith("--"):
        yield from _joined(program, word[1:], following)
        return
    option = _named(program, head if equals else word)
    if option is None:
        return
    if option.keep is None:
        yield option, None
    elif equals:
        yield option, attached
    elif option.many:
        yield option, " ".join(_until_an_option(words, place))
    else:
        yield option, following


def _joined(program: Program, letters: str, following: str | None) -> Iterator[tuple[Option, str | None]]:
    """Of getopt(3): `-lN0` is `-l -N 0`."""
    for place, letter in enumerate(letters):
        option = next((one for one in program.options if f"-{letter}" in one.spellings), None)
        if option is None:
            return
        if option.keep is not None:
            yield option, letters[place + 1 :] or following
            return
        yield option, None


def _takes_next(program: Program, word: str) -> bool:
    """Is the next word the value of an option in this one?"""
    if word.startswith("--"):
        return "=" not in word
    for place, letter in enumerate(word[1:]):
        option = next((one for one in program.options if f"-{letter}" in one.spellings), None)
        if option is not None and option.keep is not None:
            return place == len(word) - 2
    return False


def _named(program: Program, head: str) -> Option | None:
    for one in program.options:
        if head in one.spellings:
            return one
    if not program.is_getopt or len(head) <= _PREFIX:
        return None
    near = [one for one in program.options if any(name.startswith(head) for name in one.spellings)]
    return near[0] if len(near) == 1 else None


def _until_an_option(words: Sequence[str], place: int) -> Iterator[str]:
    for word in words[place : place + 256]:
        if word.startswith("-"):
            return
        yield word


def _base(word: str) -> str:
    return word.rpartition("/")[2]
