"""Options of a command line and variables of an environment that the table of launchers knows. All others are dropped
at once: they hold secrets.

A command line may be hostile: it may be long, not text, and hold passwords. So a word is kept only if it is a known
option of a known program, and its value only in the form that the option has. Of the program that a launcher becomes
the name is kept: its declaration is of no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from numaudit.ranks import shell
from numaudit.ranks.declaration import Command, CommandLine, Given
from numaudit.ranks.launcher import Keep, Option, Program

MOST_WORDS = 4096
_PREFIX = 2
_KEYWORDS = frozenset(("if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "exec", "command"))
"""Of a shell, before a command."""
_WRAPPERS = re.compile(
    r"env|nice|ionice|timeout|setsid|nohup|stdbuf|chrt|setpriv|prlimit|sudo|doas|gosu|su-exec|tini|dumb-init|catatonit|xargs",
    re.ASCII,
)
"""Programs that run the command after their options."""
_ELSEWHERE = re.compile(r"ssh|rsh|docker|podman|nerdctl|crictl|ctr|kubectl|oc", re.ASCII)
"""Programs that run a command on another host, or in another container."""
_INTERPRETERS = re.compile(r"python[\d.]*|perl|ruby|node|lua[\d.]*|Rscript|-?(?:ba|da|z|k|a)?sh", re.ASCII)
_NO_PROGRAM = re.compile(r"-.*|[\d.]+[smhd]?|[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
"""Options, numbers and assignments."""
_NAME = re.compile(r"[\w.+\-:]{1,64}", re.ASCII)
_TITLE = re.compile(r"[A-Za-z]{1,16}::\w{1,40}", re.ASCII)
"""The kept part of a title that a process gave itself: `ray::Learner` of `ray::Learner.step()`."""
_VERSION = re.compile(r"(?:\.\d+)+$", re.ASCII)


def read(raw: bytes, programs: Sequence[Program], executable: str | None = None) -> CommandLine:
    """`raw`: /proc/PID/cmdline, or a beginning of it. `executable`: the name of its file, which it cannot change."""
    words = [one.decode("ascii", "replace") for one in raw.removesuffix(b"\0").split(b"\0", MOST_WORDS)[:MOST_WORDS]]
    launchers = [one for one in programs if one.becomes]
    names = (*_names(words), *(() if executable is None else (executable, _VERSION.sub("", executable))))
    text = shell.text_of(words)
    if text is not None:
        found = [_command(one, launchers)[0] for one in shell.commands(text)]
        return CommandLine(names[:1], (), tuple(found), is_shell=True)
    given = tuple(_given(words, [one for one in programs if not one.becomes]))
    commands = () if _ELSEWHERE.fullmatch(_base(words[0])) else tuple(_commands(words, launchers))
    return CommandLine(names, given, commands)


def _names(words: Sequence[str]) -> Iterator[str]:
    """Of the program that `words` begin with, and of the script that it runs."""
    title = _TITLE.match(words[0])
    name = _base(words[0]) if title is None else title[0]
    if not _NAME.fullmatch(name):
        return
    yield name
    if _INTERPRETERS.fullmatch(name) and "-c" not in words:
        script = next((one for one in words[1:8] if not one.startswith("-")), "")
        if _NAME.fullmatch(_base(script)):
            yield _base(script)


def _commands(words: Sequence[str], launchers: Sequence[Program]) -> Iterator[Command]:
    """One for each launcher that is not within the command of another."""
    place = 0
    while place < len(words):
        if _named_so(launchers, _base(words[place])):
            command, used = _command(words[place:], launchers)
            yield command
            place += used
        else:
            place += 1


def _command(words: Sequence[str], launchers: Sequence[Program]) -> tuple[Command, int]:
    """A command, and the number of words up to the program that it runs in the end."""
    starts: list[str] = []
    given: list[Given] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "command" and words[place + 1 : place + 2] and words[place + 1].startswith("-"):
            break  # it only asks for a program
        named = _named_so(launchers, _base(word))
        if named:
            options, used = _options_of(named[0], words[place + 1 :])
            given += options
            place += 1 + used
            continue
        if word in _KEYWORDS or _NO_PROGRAM.fullmatch(word):
            place += 1
            continue
        starts += _names(words[place:])
        if not _WRAPPERS.fullmatch(_base(word)):
            break
        place += 1
    return Command(tuple(starts), tuple(given)), max(place, 1)


def options(program: Program, words: Sequence[str]) -> tuple[Given, ...]:
    """Its options in the words after its name."""
    return tuple(_options_of(program, words)[0])


def _options_of(program: Program, words: Sequence[str]) -> tuple[list[Given], int]:
    """And the number of words up to the program that it becomes."""
    found: list[Given] = []
    place, first = 0, program.first
    while place < len(words):
        word = words[place]
        if word == "--":
            return found, place + 1
        if word.startswith("-"):
            place += 1
            place += _add(found, program, word, words, place)
            continue
        kept = None if first is None or first.keep is None else first.keep(word)
        if first is None or (kept is None and not program.is_getopt):
            break
        place += 1
        if kept is not None and not any(one.option == first.name for one in found):
            found.append(Given(program.kind, 0, first.name, kept))
        if program.is_getopt:
            break
    return found, place


def _add(found: list[Given], program: Program, word: str, words: Sequence[str], place: int, occurrence: int = 0) -> int:
    """Adds the options in one word; the number of words after it that are their values."""
    used = 0
    for option, value in _options(program, word, words, place):
        kept = "" if option.keep is None else option.keep(value) if value is not None else None
        if kept is not None:
            found.append(Given(program.kind, occurrence, option.name, kept))
        used |= option.keep is not None and _takes_next(program, word)
    return used


def _given(words: Sequence[str], programs: Sequence[Program]) -> Iterator[Given]:
    current: list[tuple[Program, int]] = [(one, 0) for one in programs if one.named is None]
    seen: dict[str, int] = {}
    found: list[Given] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word.startswith("-"):
            for program, occurrence in current:
                _add(found, program, word, words, place, occurrence)
            place += any(word in (program.takes_next or ()) for program, _ in current)
            continue
        current = [pair for pair in current if pair[0].takes_next is None]
        named = _named_so(programs, _base(word))
        for program in named:
            seen[program.kind] = seen.get(program.kind, -1) + 1
        if named:
            current = [(one, 0) for one in programs if one.named is None]
            current += [(one, seen[one.kind]) for one in named]
    yield from found


def _named_so(programs: Sequence[Program], base: str) -> list[Program]:
    return [one for one in programs if one.named is not None and one.named.fullmatch(base)]


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


LONGEST_VALUE = 8192


def kept(raw: bytes, keys: Mapping[str, Keep]) -> dict[str, str]:
    """`raw`: /proc/PID/environ, or a beginning of it. Of two variables of one name the first counts: getenv(3)."""
    found: dict[str, str] = {}
    for one in raw.split(b"\0"):
        name, equals, value = one.partition(b"=")
        key = name.decode("ascii", "replace") if equals and len(name) < 64 else ""
        keep = keys.get(key)
        if keep is None or key in found or len(value) > LONGEST_VALUE or not value.isascii():
            continue
        text = keep(value.decode("ascii"))
        if text is not None:
            found[key] = text
    return found
