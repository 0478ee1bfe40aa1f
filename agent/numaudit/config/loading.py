"""The settings in force: defaults, then a YAML file, the environment above it, and flags above both."""

from __future__ import annotations

import difflib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from numaudit.config import CONFIG_VARIABLE, yaml_file
from numaudit.config.settings import KEYS, Settings
from numaudit.encoding.yaml_values import Lined
from numaudit.errors import InputError, brief, cut
from numaudit.kernel.own_files import state_of


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome of reading the settings again."""

    loaded: Loaded
    """In force from now on."""
    changed: tuple[str, ...]
    """Settings that have another value now."""
    waiting: tuple[str, ...]
    """Settings that were given another value, which takes effect at the next start."""


def reloaded(now: Loaded, new: Loaded) -> Reloaded:
    """The new settings as far as a running agent takes them; for the rest those in force stay."""
    different = [key for path, key in KEYS.items() if new.values[path] != now.values[path]]
    changed = tuple(key.path for key in different if key.reloads)
    values = {**now.values, **{path: new.values[path] for path in changed}}
    origins = {path: (new if key.reloads else now).origins[path] for path, key in KEYS.items()}
    waiting = tuple(key.path for key in different if not key.reloads)
    loaded = replace(new, settings=settings_of(values), values=values, origins=origins)
    return Reloaded(loaded, changed, waiting)


Section = TypeVar("Section")
FlagSettings = Sequence[tuple[str, str, str]]
"""(flag, setting's path, value), the last one winning."""

OTHER_VARIABLES = (CONFIG_VARIABLE, "NUMAUDIT_DEBUG")
"""Those that are no setting."""

_OF_A_URL = frozenset(":@")
_PREFIX = "NUMAUDIT_"
_SIMILAR = 0.7
"""Least similarity between the last part of a name and that of a setting that is suggested for it: `kind` is not meant
to be `verdicts.window`."""
_OF_A_SERVICE = re.compile(r"NUMAUDIT_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force."""

    settings: Settings
    values: Mapping[str, Any]
    """Path of a setting -> its value."""
    origins: Mapping[str, str]
    """Path of a setting -> `default`, `agent.yaml:7`, `environment NUMAUDIT_INTERVAL` or `flag --interval`."""
    warnings: tuple[str, ...]
    files: tuple[Path, ...] = ()
    """Files that were read: one file, or none."""
    read_as: tuple[object, ...] = ()
    """The state of the files just before, as `state_of` gives it."""


def load(path: Path | None, environment: Mapping[str, str], flags: FlagSettings) -> Loaded:
    """Settings from all sources. Raises InputError with file, line and path of the first value that is wrong."""
    files = () if path is None else (path,)
    read_as = state_of(files)
    sources = _Sources.read(path, environment, flags)
    if sources.problems:
        raise InputError(sources.problems[0])
    warnings = tuple(f"{one}; it is ignored" for one in sources.unknown)
    return Loaded(settings_of(sources.values), sources.values, sources.origins, warnings, files, read_as)


def check(path: Path | None, environment: Mapping[str, str], flags: FlagSettings) -> tuple[str, ...]:
    """All that is wrong with the settings; what is not known is wrong, too."""
    sources = _Sources.read(path, environment, flags)
    return (*sources.problems, *sources.unknown)


def load_section(section: str, path: Path | None, environment: Mapping[str, str]) -> Settings:
    """The settings for those who use one section of them alone, such as `kubelet`: the others are not looked at.

    Raises InputError as `load` does.
    """
    sources = _Sources.read(path, environment, (), section)
    if sources.problems:
        raise InputError(sources.problems[0])
    return settings_of(sources.values)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """The settings with these values, by their paths."""
    return _build(Settings, values)


def _build(section: type[Section], values: Mapping[str, Any], prefix: str = "") -> Section:
    arguments = {}
    for one in fields(cast("Any", section)):
        path = prefix + one.name
        nested = is_dataclass(one.default)
        arguments[one.name] = _build(cast("type", type(one.default)), values, f"{path}.") if nested else values[path]
    return section(**arguments)


@dataclass(slots=True)
class _Sources:
    """All sources together, with their problems."""

    values: dict[str, Any] = field(default_factory=lambda: {key.path: key.default for key in KEYS.values()})
    origins: dict[str, str] = field(default_factory=lambda: dict.fromkeys(KEYS, "default"))
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Keys and variables that do not exist."""
    section: str = ""
    """The only one whose values and problems matter; empty = all do."""

    @classmethod
    def read(
        cls, path: Path | None, environment: Mapping[str, str], flags: FlagSettings, section: str = ""
    ) -> _Sources:
        sources = cls(section=section)
        if path is not None:
            try:
                sources._read_file(path)
            except InputError as error:
                sources.problems.append(str(error))
        for key in KEYS.values():
            if key.variable in environment:
                sources.take(key.path, environment[key.variable], f"environment {key.variable}")
        sources.unknown += _unknown_variables(environment)
        for flag, key_path, given in flags:
            if key_path in KEYS:
                sources.take(key_path, given, f"flag {flag}")
            else:
                sources.problems.append(f"{flag}: there is no setting {_named(key_path)}{_suggestion(key_path)}")
        return sources

    def _read_file(self, path: Path) -> None:
        """Raises InputError when all of it is wrong."""
        root = yaml_file.values(path, "the settings", yaml_file.AGENT)
        if root is not None:
            self._walk(root, str(path), "", 1, {})

    def _walk(self, given: object, file: str, prefix: str, line: int, seen: dict[str, int]) -> None:
        """Settings of a part of the file. An empty value leaves a setting as it is.

        `seen`: each key in lower case -> its line, however it is spelt: `web.timeout`, or `timeout` below `web`.
        """
        if not isinstance(given, Lined):
            self.problems.append(f"{file}:{line}: {prefix.rstrip('.') or 'the file'} must hold keys and values")
            return
        for name, value in given.items():
            key, line = f"{prefix}{name}", given.lines[name]
            if not self.matters(key):
                continue
            if key.lower() in seen:
                first = seen[key.lower()]
                self.problems.append(f"{file}:{line}: {_named(key)} is given twice, first in line {first}")
                continue
            seen[key.lower()] = line
            if not any(one == key or one.startswith(f"{key}.") for one in KEYS):
                self.unknown.append(f"{file}:{line}: there is no setting {_named(key)}{_suggestion(key)}")
            elif key in KEYS and value is not None:
                self.take(key, value, f"{file}:{line}")
            elif value is not None:
                self._walk(value, file, f"{key}.", line, seen)

    def matters(self, path: str) -> bool:
        """Of a setting or a section."""
        return not self.section or path.partition(".")[0] == self.section

    def take(self, path: str, value: object, where: str) -> None:
        if not self.matters(path):
            return
        try:
            found = KEYS[path].kind.parse(value)
        except ValueError as error:
            self.refuse(path, value, where, str(error))
            return
        self.values[path], self.origins[path] = found, where
        if isinstance(found, Path) and _is_irregular(found):
            self.problems.append(f"{where}: {path} {found} is not a regular file, such as a pipe that may never end")

    def refuse(self, path: str, value: object, where: str, why: str = "") -> None:
        if not self.matters(path):
            return
        key = KEYS[path]
        given = "what is given (hidden)" if key.secret or key.kind.private else _shown(value)
        reason = f": {why}" if (key.kind.private or key.kind.says_why) and why else ""
        self.problems.append(f"{where}: {path} must be {key.kind.what}, not {given}{reason}")


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Kubernetes gives each pod variables of the services there are: those of one called numaudit are no mistake."""
    known = {name.removeprefix(_PREFIX) for name in (*OTHER_VARIABLES, *(key.variable for key in KEYS.values()))}
    for variable in sorted(environment):
        name = variable.removeprefix(_PREFIX)
        if name != variable and name not in known and not _OF_A_SERVICE.match(variable):
            close = difflib.get_close_matches(name, known, n=1)
            near = f"; did you mean {_PREFIX}{close[0]}?" if close else ""
            yield f"there is no variable {variable}{near}"


def _suggestion(path: str) -> str:
    path = path.lower()
    known = [*KEYS, *{one.partition(".")[0] for one in KEYS if "." in one}]
    close = difflib.get_close_matches(path, known, n=1) or difflib.get_close_matches(
        path.rpartition(".")[2], [one.rpartition(".")[2] for one in known], n=1, cutoff=_SIMILAR
    )
    if not close:
        return ""
    return f"; did you mean {next(one for one in known if one == close[0] or one.endswith(f'.{close[0]}'))}?"


def _is_irregular(path: Path) -> bool:
    """Is something else there than a file, as far as it may be seen?"""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _named(key: str) -> str:
    """A name that no setting has. One with a colon or an @ may be a piece of a URL, with a piece of its password."""
    return brief(key) if _OF_A_URL.isdisjoint(key) else "(hidden)"


def _shown(value: object) -> str:
    """Any text in a list may hold a password, and any name or text in a mapping."""
    if isinstance(value, Mapping):
        return "keys and values"
    if isinstance(value, list):
        return cut(f"[{', '.join(map(_shown, value))}]")
    return repr(brief(str(value)))
