"""Make, set and remove cgroups of version 2. Only for cgroups of our own: others are read, never written.

Source: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import NumauditError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import read_text

_PATIENCE = 10.0
"""Seconds for killed processes to leave their cgroup."""


class OwnCgroup(Struct, frozen=True):
    """A cgroup that we made."""

    path: Path

    @property
    def id(self) -> int:
        """Inode of the cgroup's folder, which BPF programs use as its id. Raises OSError."""
        return files.status(self.path).st_ino

    def write(self, name: str, value: str) -> None:
        """Set one of its files. Raises Unavailable with the file, the value and the kernel's reason."""
        _write(self.path / name, value)

    def remove(self) -> None:
        """Kill what is in it and remove it. Raises NumauditError when its processes do not end."""
        if not files.exists(self.path):
            return
        self.write("cgroup.kill", "1")
        deadline = time.monotonic() + _PATIENCE
        while "populated 1" in read_text(self.path / "cgroup.events"):
            if time.monotonic() > deadline:
                raise NumauditError(
                    f"processes in {self.path} did not end after SIGKILL; remove the cgroup "
                    "with rmdir when they have ended"
                )
            time.sleep(0.01)
        self.path.rmdir()


class OwnTree(Struct):
    """A cgroup of ours with children. Only leaves may hold processes when controllers are handed down."""

    top: OwnCgroup
    children: list[OwnCgroup] = field(default_factory=list)

    def add(self, name: str, **settings: str) -> OwnCgroup:
        """A child with settings such as `cpuset_mems="0"` for cpuset.mems. Raises Unavailable."""
        child = _make(self.top.path / name)
        self.children.append(child)
        for key, value in settings.items():
            child.write(key.replace("_", "."), value)
        return child


@contextmanager
def own_tree(unified: Path, name: str, controllers: Sequence[str] = ()) -> Iterator[OwnTree]:
    """A cgroup below the mount `unified`, whose children have these controllers; all is undone at the end.

    Raises Unavailable when the kernel does not let us.
    """
    handed_down = _missing(unified, controllers)
    with _handing_down(unified, handed_down):
        tree = OwnTree(_make(unified / name))
        try:
            _hand_down(tree.top.path, controllers)
            yield tree
        finally:
            for group in (*tree.children, tree.top):
                group.remove()


def own_child(unified: Path, parent: str, name: str, controllers: Sequence[str]) -> OwnCgroup:
    """A cgroup `name` below `parent` (from the mount on), which is made where it is missing and hands these down.

    It is the caller's to remove; `parent` and what is handed down to it stay. Raises Unavailable when the kernel does
    not let us.
    """
    folder = unified
    _hand_down(folder, _missing(folder, controllers))
    for part in Path(parent.strip("/")).parts:
        folder /= part
        if not files.exists(folder):
            _make(folder)
        _hand_down(folder, _missing(folder, controllers))
    return _make(folder / name)


def available_controllers(unified: Path) -> tuple[str, ...]:
    """Controllers that may be handed down from a mount or cgroup. Raises OSError."""
    return tuple(read_text(unified / "cgroup.controllers").split())


@contextmanager
def _handing_down(folder: Path, controllers: Sequence[str]) -> Iterator[None]:
    _hand_down(folder, controllers)
    try:
        yield
    finally:
        if controllers:
            _write(folder / "cgroup.subtree_control", " ".join(f"-{name}" for name in controllers))


def _missing(folder: Path, controllers: Sequence[str]) -> list[str]:
    present = read_text(folder / "cgroup.subtree_control").split()
    return [name for name in controllers if name not in present]


def _hand_down(folder: Path, controllers: Sequence[str]) -> None:
    if controllers:
        _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))


def _make(path: Path) -> OwnCgroup:
    try:
        path.mkdir()
    except OSError as error:
        raise Unavailable(f"cannot make the cgroup {path}: {error.strerror}; run as root on the host") from error
    return OwnCgroup(path)


def _write(path: Path, value: str) -> None:
    try:
        with os.fdopen(files.open_file(path, os.O_WRONLY), "w", encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        raise Unavailable(f"cannot write {value!r} to {path}: {error.strerror}; run as root on the host") from error
