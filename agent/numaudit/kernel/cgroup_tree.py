"""The cgroups of a hierarchy: only folders whose groups changed are listed again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.cgroup import LEAF_LINKS, Cgroup, unescape
from numaudit.kernel.host import TOO_MANY_FILES, Host, read_bytes


class CgroupTree(Struct):
    """The groups below one folder, walk after walk."""

    root: Path
    inodes: Mapping[str, int] = field(default_factory=dict)
    """Result of `read_inodes`."""
    _groups: list[Cgroup] = field(default_factory=list)
    _seen: list[tuple[str, int, int]] = field(default_factory=list)
    """Of each folder below the root in the last walk: its path from there, inode and links."""
    _root: tuple[int, int] | None = None
    """Inode and links of the root; None = no walk has come to its end."""
    _names: dict[str, list[str]] = field(default_factory=dict)
    """Names of the groups in each."""

    def groups(self) -> list[Cgroup]:
        """Every group, parents first, the root before all; the very list of the last walk where none came or went.

        A group that vanishes is skipped. Raises Unavailable when there is no root.
        """
        if not self._is_as_before():
            self._groups = list(self._walk())
        return self._groups

    def _is_as_before(self) -> bool:
        """Is each folder the same, with as many folders in it? Then none has come: that changes the folder above."""
        try:
            status = files.status(self.root)
            if self._root != (status.st_ino, status.st_nlink):
                return False
            now = files.statuses_below(self.root, [path[1:] for path, _, _ in self._seen])
            for (_, inode, links), status in zip(self._seen, now, strict=True):
                # A file system that counts no subfolders, such as btrfs, has one link and says nothing.
                if status.st_ino != inode or status.st_nlink != links or links < LEAF_LINKS:
                    return False
        except OSError:
            return False
        return True

    def _walk(self) -> Iterator[Cgroup]:
        root, inodes = str(self.root), self.inodes
        self._root = None
        try:
            status = files.status(self.root)
        except OSError as error:
            raise Unavailable(f"cannot read {root}: {error.strerror}; is the cgroup file system mounted?") from error
        before, self._names = self._names, {}
        of_root, self._seen = (status.st_ino, status.st_nlink), []
        yield Cgroup(inodes.get(root, status.st_ino), "/")
        pending = [("", status.st_nlink)]
        while pending:
            parent, links = pending.pop()
            children = _children(root + parent, links, before.get(parent))
            self._names[parent] = [name for name, _ in children]
            for name, status in children:
                path = f"{parent}/{name}"
                folder = root + path
                self._seen.append((path, status.st_ino, status.st_nlink))
                yield Cgroup(inodes.get(folder, status.st_ino) if inodes else status.st_ino, path)
                # kernfs keeps st_nlink = 2 + subfolders, which saves listing some 60 files of each leaf.
                if status.st_nlink != LEAF_LINKS:
                    pending.append((path, status.st_nlink))
        self._root = of_root


def read_inodes(host: Host) -> dict[str, int]:
    """`cgroup-inodes.txt` of a captured tree: path of the folder in the tree -> inode. Empty on a live host."""
    inodes: dict[str, int] = {}
    try:
        lines = os.fsdecode(read_bytes(host.cgroup_inodes)).split("\n")
    except FileNotFoundError:
        return inodes
    for line in lines:
        inode, _, path = line.partition(" ")
        if path and inode.isascii() and inode.isdigit() and len(inode) < 21:
            inodes[str(host.at(unescape(path)))] = int(inode)
    return inodes


def _children(folder: str, links: int, known: list[str] | None) -> list[tuple[str, os.stat_result]]:
    """Name and status of each subfolder. As many as before, and all of them still there: then they are the same."""
    if known is not None and links == LEAF_LINKS + len(known):
        try:
            return [(name, files.status(f"{folder}/{name}", follows=False)) for name in known]
        except OSError:
            pass  # one has gone, so another has come
    try:
        return files.folders(folder)
    except OSError as error:
        if error.errno in TOO_MANY_FILES:
            raise  # all groups below would seem to have ended
        return []
