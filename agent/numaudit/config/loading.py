"""The settings in force: defaults, then a YAML file, the environment above it, and flags above both."""

from __future__ import annotations

import difflib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from numaudit import yaml_values
from numaudit.config import CONFIG_VARIABLE, yaml_file
from numaudit.config.settings import KEYS, Settings
from numaudit.errors import InputError, brief, cut
from numaudit.kernel.own_files import state_of

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
_NUMBER_AS_READ = re.compile(r"[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?", re.ASCII)
"""A number that YAML 1.1 reads as people do: to it 1:30 is 90, and 010 is 8."""


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
                _File(path, sources).read()
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
        reason = f": {why}" if key.kind.private and why else ""
        self.problems.append(f"{where}: {path} must be {key.kind.what}, not {given}{reason}")


@dataclass(slots=True)
class _File:
    """One file of settings. Raises InputError when all of it is wrong."""

    path: Path
    sources: _Sources
    seen: dict[str, int] = field(default_factory=dict)
    """Each key in lower case -> its line, however it is spelt: `web.timeout`, or `timeout` below `web`."""

    def read(self) -> None:
        loader = yaml_values.Loader(yaml_file.read(self.path, "the settings"))
        try:
            root = loader.get_single_node()
            if root is not None:
                self._walk(loader, root, "")
                self._refuse_foreign(root)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise yaml_values.not_yaml(str(self.path), error) from error
        finally:
            loader.dispose()

    def _refuse_foreign(self, root: yaml.Node) -> None:
        """A file with several keys, none of them known or close to a known one, is another program's."""
        if not isinstance(root, yaml.MappingNode):
            return
        names = [str(key.value) for key, _ in root.value]
        known = {key.partition(".")[0] for key in KEYS}
        if len(names) > 1 and not any(name.partition(".")[0] in known or _suggestion(name) for name in names):
            found = ", ".join(map(_named, names[:3]))
            raise InputError(
                f"{self.path}: holds none of numaudit's settings, but {found}; is it the file of another program?"
            )

    def _walk(self, loader: yaml.SafeLoader, node: yaml.Node, prefix: str) -> None:
        """Settings below one node. An empty value leaves a setting as it is."""
        if not isinstance(node, yaml.MappingNode):
            what = prefix.rstrip(".") or "the file"
            self.sources.problems.append(f"{self._line(node)}: {what} must hold keys and values")
            return
        for key_node, value_node in node.value:
            key = f"{prefix}{key_node.value}" if isinstance(key_node, yaml.ScalarNode) else f"{prefix}?"
            if not self.sources.matters(key) or not self._is_new(key, key_node):
                continue
            if key in KEYS:
                self._take(loader, value_node, key, self._line(key_node))
            elif not any(one.startswith(f"{key}.") for one in KEYS):
                self.sources.unknown.append(
                    f"{self._line(key_node)}: there is no setting {_named(key)}{_suggestion(key)}"
                )
            elif not _is_empty(value_node):
                self._walk(loader, value_node, f"{key}.")

    def _is_new(self, key: str, node: yaml.Node) -> bool:
        first = self.seen.get(key.lower())
        if first is None:
            self.seen[key.lower()] = node.start_mark.line + 1
        else:
            self.sources.problems.append(f"{self._line(node)}: {_named(key)} is given twice, first in line {first}")
        return first is None

    def _take(self, loader: yaml.SafeLoader, node: yaml.Node, key: str, where: str) -> None:
        """YAML's own rules may fail, too: a number of 5,000 digits, a month 99."""
        strange = next((one.value for one in _scalars(node) if _is_strange_number(one)), None)
        if strange is not None:
            self.sources.refuse(key, strange, where)
            return
        try:
            value = loader.construct_object(node, deep=True)
        except ValueError:
            self.sources.refuse(key, node.value if isinstance(node, yaml.ScalarNode) else "what is there", where)
            return
        if value is not None:
            self.sources.take(key, value, where)

    def _line(self, node: yaml.Node) -> str:
        return f"{self.path}:{node.start_mark.line + 1}"


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
    return repr(brief(value)) if isinstance(value, str) else brief(repr(value))


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    else:
        for one in node.value:
            for part in one if isinstance(one, tuple) else (one,):
                yield from _scalars(part)


def _is_strange_number(node: yaml.ScalarNode) -> bool:
    is_number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    return is_number and _NUMBER_AS_READ.fullmatch(node.value) is None


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
