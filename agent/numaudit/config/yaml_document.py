"""A YAML or JSON file of somebody's own (a scenario, a pod) as plain values that know their lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from numaudit.config import yaml_file
from numaudit.errors import InputError
from numaudit.memorymanager.scenario.document import Document

LARGEST_FILE = 10 << 20
DEEPEST = 40


def read(path: Path, what: str) -> Document:
    """The whole file; `what` names it in messages ("the scenario").

    Raises InputError when it cannot be read, is larger than LARGEST_FILE, is no YAML, refers to itself, nests
    deeper than DEEPEST levels or names a key twice.
    """
    loader = yaml_file.Loader(yaml_file.read(path, what, LARGEST_FILE, DEEPEST))
    try:
        root = loader.get_single_node()
        if root is None:
            raise InputError(f"{path}: it is empty")
        _refuse_repeated_keys(root, path)
        return Document(str(path), loader.construct_document(root), _lines(root))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise yaml_file.not_yaml(path, error) from error
    finally:
        loader.dispose()


def _refuse_repeated_keys(root: yaml.Node, path: Path) -> None:
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise InputError(f"{path}:{line}: a key must be text")
                if key.value in seen:
                    raise InputError(f"{path}:{line}: {key.value} is there twice, first in line {seen[key.value]}")
                seen[key.value] = line
                left.append(value)


def _lines(root: yaml.Node) -> Callable[[str], int | None]:
    def line_of(path: str) -> int:
        node, line, left = root, root.start_mark.line, path
        while left and (found := _step(node, left)) is not None:
            node, line, left = found
        return int(line) + 1

    return line_of


def _step(node: yaml.Node, path: str) -> tuple[yaml.Node, int, str] | None:
    """One step down a path: the value, the line of its key, and what is left. Keys may hold dots."""
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        index, _, left = path[1:].partition("]")
        if index.isdigit() and int(index) < len(node.value):
            value = node.value[int(index)]
            return value, value.start_mark.line, left.removeprefix(".")
    if isinstance(node, yaml.MappingNode):
        for key, value in sorted(node.value, key=lambda pair: -len(pair[0].value)):
            left = path.removeprefix(key.value)
            if left != path and (not left or left[0] in ".["):
                return value, key.start_mark.line, left.removeprefix(".")
    return None
