"""The settings in force: defaults, then a YAML file, the environment above it, and flags above both."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from numaudit.config import yaml_file
from numaudit.config.settings import KEYS, Settings
from numaudit.errors import InputError

Section = TypeVar("Section")
CONFIG_VARIABLE = "NUMAUDIT_CONFIG"
OTHER_VARIABLES = (CONFIG_VARIABLE, "NUMAUDIT_DEBUG")
"""Those that are no setting."""

_PREFIX = "NUMAUDIT_"
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


def load(path: Path | None, environment: Mapping[str, str], flags: Sequence[tuple[str, str, str]]) -> Loaded:
    """Settings from all sources. `flags` are (flag, setting's path, value), the last one winning.

    Raises InputError with file, line and path of the first value that is wrong.
    """
    values = {key.path: key.default for key in KEYS.values()}
    origins = dict.fromkeys(values, "default")
    warnings: list[str] = []
    for key_path, found, where in [] if path is None else _read(path, warnings):
        values[key_path], origins[key_path] = _parse(key_path, found, where), where
    for key in KEYS.values():
        if key.variable in environment:
            where = f"environment {key.variable}"
            values[key.path], origins[key.path] = _parse(key.path, environment[key.variable], where), where
    warnings += _unknown_variables(environment)
    for flag, key_path, given in flags:
        if key_path not in KEYS:
            raise InputError(f"{flag}: there is no setting {key_path}{_suggestion(key_path)}")
        values[key_path], origins[key_path] = _parse(key_path, given, f"flag {flag}"), f"flag {flag}"
    return Loaded(_build(Settings, values), values, origins, tuple(warnings))


def _parse(path: str, value: object, where: str) -> object:
    kind = KEYS[path].kind
    try:
        return kind.parse(value)
    except ValueError:
        raise InputError(f"{where}: {path} must be {kind.what}, not {_shown(value)}") from None


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Kubernetes gives each pod variables of the services there are: those of one called numaudit are no mistake."""
    known = {name.removeprefix(_PREFIX) for name in (*OTHER_VARIABLES, *(key.variable for key in KEYS.values()))}
    for variable in sorted(environment):
        name = variable.removeprefix(_PREFIX)
        if name != variable and name not in known and not _OF_A_SERVICE.match(variable):
            close = difflib.get_close_matches(name, known, n=1)
            near = f"; did you mean {_PREFIX}{close[0]}?" if close else ""
            yield f"there is no variable {variable}{near}; it is ignored"


def _shown(value: object) -> str:
    return repr(value if not isinstance(value, str) or len(value) < 60 else f"{value[:60]}...")


def _build(section: type[Section], values: Mapping[str, Any], prefix: str = "") -> Section:
    arguments = {}
    for one in fields(cast("Any", section)):
        path = prefix + one.name
        nested = is_dataclass(one.default)
        arguments[one.name] = _build(cast("type", type(one.default)), values, f"{path}.") if nested else values[path]
    return section(**arguments)


def _read(path: Path, warnings: list[str]) -> list[tuple[str, object, str]]:
    """Path, value and place of each setting in a file."""
    body = yaml_file.read(path, "the settings")
    loader = yaml_file.Loader(body)
    try:
        root = loader.get_single_node()
        if root is None:
            return []
        found = list(_walk(loader, root, "", path, warnings))
        _refuse_foreign(root, path)
        return found
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise InputError(f"{path}{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    finally:
        loader.dispose()


def _refuse_foreign(root: yaml.Node, path: Path) -> None:
    """A file with several keys, none of them known or close to a known one, is another program's. Raises InputError."""
    names = [str(key.value) for key, _ in root.value]
    known = {key.partition(".")[0] for key in KEYS}
    if len(names) > 1 and not any(name in known or _suggestion(name) for name in names):
        raise InputError(
            f"{path}: holds none of numaudit's settings, but {', '.join(names[:3])}; is it another's file?"
        )


def _walk(
    loader: yaml.SafeLoader, node: yaml.Node, prefix: str, path: Path, warnings: list[str]
) -> Iterator[tuple[str, object, str]]:
    """Settings below one node. An empty value leaves a setting as it is."""
    where = f"{path}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{where}: {prefix.rstrip('.') or 'the file'} must hold keys and values")
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = f"{prefix}{key_node.value}" if isinstance(key_node, yaml.ScalarNode) else f"{prefix}?"
        if key in seen:
            raise InputError(f"{path}:{line}: {key} is there twice, first in line {seen[key]}")
        seen[key] = line
        is_section = any(one.startswith(f"{key}.") for one in KEYS)
        if key in KEYS:
            value = _construct(loader, value_node, key, f"{path}:{line}")
            if value is not None:
                yield key, value, f"{path}:{line}"
        elif not is_section:
            warnings.append(f"{path}:{line}: there is no setting {key}{_suggestion(key)}; it is ignored")
        elif not _is_empty(value_node):
            yield from _walk(loader, value_node, f"{key}.", path, warnings)


def _construct(loader: yaml.SafeLoader, node: yaml.Node, key: str, where: str) -> object:
    """The value of a node, for which YAML's own rules may fail: a number of 5,000 digits, a month 99."""
    try:
        return loader.construct_object(node, deep=True)
    except ValueError:
        text = _shown(node.value) if isinstance(node, yaml.ScalarNode) else "what is there"
        raise InputError(f"{where}: {key} must be {KEYS[key].kind.what}, not {text}") from None


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _suggestion(path: str) -> str:
    known = [*KEYS, *{one.partition(".")[0] for one in KEYS if "." in one}]
    close = difflib.get_close_matches(path, known, n=1) or difflib.get_close_matches(
        path.rpartition(".")[2], [one.rpartition(".")[2] for one in known], n=1
    )
    if not close:
        return ""
    return f"; did you mean {next(one for one in known if one == close[0] or one.endswith(f'.{close[0]}'))}?"
