"""The files of a scenario: each is read once, and named from the folder of the file that names it."""

from __future__ import annotations

from pathlib import Path

from numaudit.config import yaml_document
from numaudit.errors import InputError
from numaudit.scenario.document import Document


class ScenarioFiles:
    """Opens the files that a scenario names. Raises InputError."""

    def __init__(self, scenario: Path) -> None:
        self._scenario = scenario
        self._read: dict[Path, list[Document]] = {}

    def open(self, name: str, what: str) -> list[Document]:
        path = self._scenario.parent / name
        if "\0" not in name and path.resolve() == self._scenario.resolve():
            raise InputError(f"{name} is the scenario itself, which cannot include itself; name another file")
        if path not in self._read:
            self._read[path] = yaml_document.read_file(path, what)
        return self._read[path]
