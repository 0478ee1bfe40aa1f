"""A capture as one `.tar.xz` file: packed, and unpacked without trusting what is in it."""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from msgspec import Struct, field

from numaudit.errors import InputError, Unavailable

SUFFIX = ".tar.xz"
LARGEST = 2 << 30
"""Bytes of a tar file, so about as much space as it takes unpacked."""
MOST_ENTRIES = 1_000_000
MOST_LEVELS = 100
"""Folders in folders; each level is one of Python's when they are removed."""

_MAGIC = b"\xfd7zXZ\0"
_CHUNK = 1 << 16
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (the folder made there is its owner's alone)
_MEMORY = 256 << 20
"""For the decompressor; `xz -9` asks for 65 MiB."""
_LARGEST_HEADER = 1 << 20
_HEADERS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK)  # fmt: skip


def pack(tree: Path, stream: IO[bytes], name: str) -> None:
    """Write the tree as an archive with one folder of that name. Raises OSError."""
    with tarfile.open(fileobj=stream, mode="w|xz") as archive:
        archive.add(tree, arcname=name)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """For its owner only, and removed at the end. Raises Unavailable.

    A container with a read-only root often has no place but /dev/shm, which is memory.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="numaudit-")
    except OSError as error:
        try:
            made = tempfile.TemporaryDirectory(prefix="numaudit-", dir=_SHARED_MEMORY)
        except OSError:
            why = f"cannot make a temporary folder: {error.strerror}; set TMPDIR to another folder"
            raise Unavailable(why) from error
    with made as folder:
        yield Path(folder).resolve()


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The captured tree of an archive in a temporary folder, which is removed at the end.

    Raises InputError when it is no archive of a captured tree, is damaged, or holds what a capture never does: paths or
    links that lead out of it, devices, more than LARGEST bytes, MOST_ENTRIES entries or MOST_LEVELS levels. Raises
    Unavailable when there is no space for it.
    """
    with temporary_folder() as root:
        try:
            with archive.open("rb") as file:
                _unpack(file, root)
        except _Refused as why:
            raise InputError(f"--root {archive}: {why}; give what `numaudit capture` wrote") from None
        except (lzma.LZMAError, tarfile.TarError, EOFError, ValueError) as error:
            raise InputError(f"--root {archive}: the archive is damaged ({error}); copy it again") from error
        except OSError as error:
            raise _cannot(error, archive, root) from error
        yield _tree_in(root, archive)


def _unpack(file: BinaryIO, folder: Path) -> None:
    start = file.read(len(_MAGIC))
    if not start:
        raise _Refused("the file is empty")
    if start != _MAGIC:
        raise _Refused(f"is neither a folder nor a {SUFFIX} archive")
    stream = _Decompressed(file, start)
    unpacking = _Unpacking(folder)
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|", tarinfo=_Entry) as archive:
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else each of a million entries stays in memory
            unpacking.add(archive, entry)
    unpacking.make_links()
    while stream.read(_CHUNK):  # to the checksum at its end
        pass


def _tree_in(folder: Path, archive: Path) -> Path:
    """The folder with proc and sys: the only one of the archive, or all of it."""
    below = [path for path in folder.iterdir() if path.is_dir()]
    for tree in (folder, *below[:1]):
        if (tree / "proc").is_dir() or (tree / "sys").is_dir():
            return tree
    raise InputError(f"--root {archive}: holds neither proc nor sys, so it is not a captured tree")


def _cannot(error: OSError, archive: Path, folder: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Unavailable(
            f"cannot unpack {archive} to {folder.parent}: {error.strerror}; TMPDIR names a folder with more space"
        )
    return InputError(f"--root {archive}: {error.strerror}")


class _Unpacking(Struct):
    """One archive on its way to a folder. Links come last, so that nothing is ever written through one."""

    folder: Path
    entries: int = 0
    links: list[tuple[Path, str]] = field(default_factory=list)

    def add(self, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        """Raises _Refused, TarError, OSError."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise _Refused(f"holds more than {MOST_ENTRIES} entries")
        path = self._inside(entry.name)
        if entry.isdir():
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.issym():
            self.links.append((path, entry.linkname))
        elif entry.islnk():
            path.hardlink_to(self._inside(entry.linkname))
        elif entry.isreg() and not entry.issparse():
            source = archive.extractfile(entry)
            assert source is not None
            with path.open("xb") as target:
                shutil.copyfileobj(source, target, _CHUNK)
        else:
            raise _Refused(f"{entry.name!r} is not a file, folder or link, and captures hold nothing else")

    def make_links(self) -> None:
        """Raises _Refused when one leads out of the folder, by itself or through others."""
        for path, target in self.links:
            path.symlink_to(target)
        for path, target in self.links:
            if not Path(os.path.realpath(path)).is_relative_to(self.folder):
                raise _Refused(f"the link {str(path.relative_to(self.folder))!r} leads out of it, to {target!r}")

    def _inside(self, name: str) -> Path:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise _Refused(f"the path {name!r} leads out of it")
        path = self.folder / name
        if len(path.parts) - len(self.folder.parts) > MOST_LEVELS:
            raise _Refused(f"holds folders in more than {MOST_LEVELS} folders")
        return path


class _Decompressed:
    """The tar file within an xz file, read once and front to back, never more than LARGEST bytes of it."""

    def __init__(self, file: BinaryIO, start: bytes) -> None:
        self._file = file
        self._start = start
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY)
        self._size = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. Raises LZMAError, EOFError, _Refused, OSError."""
        while not self._decompressor.eof:
            more = b""
            if self._decompressor.needs_input:
                more = self._start or self._file.read(_CHUNK)
                self._start = b""
                if not more:
                    raise EOFError("it ends too early")
            data = self._decompressor.decompress(more, size)
            if data:
                self._size += len(data)
                if self._size > LARGEST:
                    raise _Refused(f"holds more than {LARGEST >> 20} MiB")
                return data
        if self._decompressor.unused_data or self._file.read(1):
            raise EOFError("something follows its end")
        return b""


class _Entry(tarfile.TarInfo):
    """An entry with a name and attributes of sensible size: tarfile keeps them in memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Check a header's size before tarfile reads it. Every tarfile calls this; the newest do not call `frombuf`."""
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise _Refused(f"an entry's name has {self.size} bytes")
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc]


class _Refused(Exception):
    """A fault of the archive, as the end of a message."""
