"""A capture as one `.tar.xz` file: packed. This and other archives: unpacked without trusting what is in them."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from msgspec import Struct, field

from numaudit.capture.compressed import CHUNK, DAMAGED, MAGIC_BYTES, TarStream, TooLarge, is_tar
from numaudit.capture.layout import tree_in
from numaudit.capture.new_folder import temporary_folder
from numaudit.errors import InputError, Unavailable

SUFFIX = ".tar.xz"
SUFFIXES = ".tar, .tar.xz, .tar.gz, .tar.bz2 or .zip"
LARGEST = 2 << 30
"""Bytes of a tar file, or of all files of a zip archive: about as much space as it takes unpacked."""
MOST_ENTRIES = 1_000_000
MOST_LEVELS = 100
"""Folders in folders; each level is one of Python's when they are removed."""

_ZIP = (b"PK\3\4", b"PK\5\6")
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
"""Those whose decompressors take little memory, whatever the archive asks for."""
_ENCRYPTED = 1
"""Of a zip entry's flags."""
_LARGEST_DIRECTORY = 16 << 20
_LONGEST_TARGET = 4096
_LARGEST_HEADER = 1 << 20
_HEADERS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK)  # fmt: skip


def pack(tree: Path, stream: IO[bytes], name: str) -> None:
    """Write the tree as an archive with one folder of that name. Raises OSError."""
    with tarfile.open(fileobj=stream, mode="w|xz") as archive:
        archive.add(tree, arcname=name)


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The captured tree of an archive in a temporary folder, which is removed at the end.

    Raises InputError when it is no archive of a captured tree, is damaged, or holds what a capture never does: paths or
    links that lead out of it, more than LARGEST bytes, MOST_ENTRIES entries or MOST_LEVELS levels. Raises Unavailable
    when there is no space for it.
    """
    with temporary_folder() as root:
        try:
            with archive.open("rb") as file:
                _unpack(file, root)
        except _Refused as why:
            raise InputError(f"--root {archive}: {why}; give what `numaudit capture` wrote") from None
        except TooLarge:
            raise InputError(f"--root {archive}: holds more than {LARGEST >> 20} MiB; give a smaller one") from None
        except (*DAMAGED, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise InputError(f"--root {archive}: the archive is damaged ({error}); copy it again") from error
        except OSError as error:
            raise _cannot(error, archive, root) from error
        yield tree_in(root, archive)


def _unpack(file: BinaryIO, folder: Path) -> None:
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and not status.st_size:  # so has /proc/kmsg, which makes its reader wait
        raise _Refused("the file is empty")
    start = file.read(MAGIC_BYTES)
    unpacking = _Unpacking(folder)
    if is_tar(start) or (start and not start.strip(b"\0")):  # a tar file without entries is zeros alone
        _unpack_tar(TarStream(file, start, LARGEST), unpacking)
    elif start.startswith(_ZIP):
        _unpack_zip(file, unpacking)
    else:
        raise _Refused(f"is neither a folder nor an archive ({SUFFIXES})" if start else "the file is empty")
    unpacking.make_links()


def _unpack_tar(stream: TarStream, unpacking: _Unpacking) -> None:
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|", tarinfo=_Entry) as archive:
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else each of a million entries stays in memory
            path = unpacking.place_of(entry.name)
            if entry.issym():
                unpacking.links.append((path, entry.linkname))
            elif entry.islnk():
                path.hardlink_to(unpacking.inside(entry.linkname))
            elif entry.issparse():
                raise _Refused(f"{entry.name!r} is a sparse file, which may be of any size")
            else:
                unpacking.add(path, entry.isdir(), archive.extractfile(entry))
    while stream.read(CHUNK):  # to the checksum at its end
        pass


def _unpack_zip(file: BinaryIO, unpacking: _Unpacking) -> None:
    if not file.seekable():
        raise _Refused("is a zip archive, which cannot be read from a pipe")
    with zipfile.ZipFile(_BoundedReads(file)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > LARGEST:  # no more than that is read of an entry
            raise TooLarge
        for entry in entries:
            path = unpacking.place_of(entry.filename)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _ZIP_METHODS:
                raise _Refused(f"{entry.filename!r} is encrypted, or compressed by a rare method")
            if kind == stat.S_IFLNK:
                unpacking.links.append((path, os.fsdecode(archive.open(entry).read(_LONGEST_TARGET))))
            else:
                is_file = kind in {0, stat.S_IFREG} and not entry.is_dir()
                unpacking.add(path, entry.is_dir(), archive.open(entry) if is_file else None)


def _cannot(error: OSError, archive: Path, folder: Path) -> Exception:
    if error.errno is None:  # bzip2's
        return InputError(f"--root {archive}: the archive is damaged ({error}); copy it again")
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

    def place_of(self, name: str) -> Path:
        """The place of the next entry, in a folder that exists. Raises _Refused, OSError."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise _Refused(f"holds more than {MOST_ENTRIES} entries")
        path = self.inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def inside(self, name: str) -> Path:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise _Refused(f"the path {name!r} leads out of it")
        path = self.folder / name
        if len(path.parts) - len(self.folder.parts) > MOST_LEVELS:
            raise _Refused(f"holds folders in more than {MOST_LEVELS} folders")
        return path

    def add(self, path: Path, is_folder: bool, content: IO[bytes] | None) -> None:
        """A folder or a file. What is neither, such as a device in a sosreport, is left out. Raises OSError."""
        if is_folder:
            path.mkdir(exist_ok=True)
        elif content is not None:
            with content, path.open("xb") as target:
                shutil.copyfileobj(content, target, CHUNK)

    def make_links(self) -> None:
        """Raises _Refused when one leads out of the folder, by itself or through others."""
        for path, target in self.links:
            path.symlink_to(target)
        for path, target in self.links:
            if not Path(os.path.realpath(path)).is_relative_to(self.folder):
                raise _Refused(f"the link {str(path.relative_to(self.folder))!r} leads out of it, to {target!r}")


class _BoundedReads:
    """A file whose zip directory is of sensible size: zipfile reads it at once, and keeps about ten times as much."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if size > _LARGEST_DIRECTORY:
            raise _Refused(f"has a directory of {size} bytes")
        return self._file.read(size)


class _Entry(tarfile.TarInfo):
    """An entry with a name and attributes of sensible size: tarfile keeps them in memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Check a header's size before tarfile reads it. Every tarfile calls this; the newest do not call `frombuf`."""
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise _Refused(f"an entry's name has {self.size} bytes")
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc]


class _Refused(Exception):
    """A fault of the archive, as the end of a message."""
