"""The volume of a ConfigMap or Secret, as the kubelet writes it (pkg/volume/util/atomic_writer.go).

`NAME -> ..data/NAME` and `..data -> ..TIMESTAMP`: an update makes another folder, then replaces the link `..data`.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class ConfigMap:
    """A volume with one file."""

    folder: Path
    name: str
    text: str
    _updates: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.swap(self.text)
        self.path.symlink_to(f"..data/{self.name}")

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def swap(self, text: str) -> None:
        """Another content, all at once."""
        self._updates += 1
        data, link = self.folder / "..data", self.folder / "..data_tmp"
        before = data.resolve() if data.is_symlink() else None
        new = self.folder / f"..2026_11_22_09_00_00.{self._updates}"
        new.mkdir()
        (new / self.name).write_text(text)
        link.symlink_to(new.name)
        link.rename(data)
        if before is not None:
            shutil.rmtree(before)
