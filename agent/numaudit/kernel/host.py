"""Places of a host's files: the live system, or a captured tree."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from numaudit.errors import InputError
from numaudit.kernel import files

TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)
STANDARD_INPUT = Path("-")
"""As a file on the command line."""
MOUNTED = Path("/host")
"""The place of the host's root in the pod of `kubectl debug node/N`. Source: kubectl, pkg/cmd/debug/profiles.go."""
LARGEST_FILE = 16 << 20
_CHUNK, _LARGE_CHUNK = 16 << 10, 1 << 20
"""No file we read is larger; a larger one is a mistake or an attack, not an interface."""


@dataclass(frozen=True, slots=True)
class KubeletConnection:
    """Connection to the kubelet where the host does not show it, as in a pod with a network of its own."""

    url: str | None = None
    """https://NODE:10250 or http://NODE:10255; None = by the kubelet's settings."""
    token_file: Path | None = None
    """None = the service account's."""
    ca_file: Path | None = None
    """None = the kubelet's own certificate where it signed one itself, else the cluster's authority."""
    log_file: Path | None = None
    """None = the journal."""
    cgroup: str | None = None
    """Of the kubelet's process, from the root of the hierarchy; None = the process has to be one of the host's own."""


@dataclass(frozen=True, slots=True)
class Host:
    """The roots of everything we read. Passed in everywhere; there is no path constant elsewhere."""

    root: Path = Path("/")
    kubelet_root: str = "/var/lib/kubelet"
    """The kubelet's `--root-dir`."""
    connection: KubeletConnection = KubeletConnection()
    """To the running kubelet, as the settings say; a captured tree has its answers instead."""
    is_mounted: bool = False
    """The root is that of the running host, mounted in a container, as `kubectl debug` mounts it at /host."""

    def __post_init__(self) -> None:
        files.confine(self.root)

    @classmethod
    def under(cls, root: Path) -> Self:
        """A captured tree, or the running host where it is mounted. Raises InputError when there is neither."""
        try:
            is_tree = (root / "proc").is_dir() or (root / "sys").is_dir()
        except OSError as error:
            raise InputError(f"--root {root}: {error.strerror}; give a folder that `numaudit capture` wrote") from error
        if not root.is_dir():
            raise InputError(f"--root {root}: {_what_it_is(root)}; give what `numaudit capture` wrote")
        if not is_tree:
            raise InputError(f"--root {root}: holds neither proc nor sys, so it is not a captured tree")
        root = root.resolve()
        files.confine(root)
        return cls(root, is_mounted=root != Path("/") and _is_procfs(root / "proc"))

    @classmethod
    def here(cls) -> Self:
        """The running host: where a container has it mounted at the usual place, that, and not the container."""
        is_mounted = _is_procfs(MOUNTED / "proc") and files.is_folder(MOUNTED / "sys/fs/cgroup")
        return cls(MOUNTED, is_mounted=True) if is_mounted else cls()

    @property
    def is_live(self) -> bool:
        return self.is_mounted or self.root == Path("/")

    @property
    def proc(self) -> Path:
        return _below(self.root, "proc")

    @property
    def sys(self) -> Path:
        return _below(self.root, "sys")

    @property
    def nodes(self) -> Path:
        return self.sys / "devices/system/node"

    @property
    def cpus(self) -> Path:
        return self.sys / "devices/system/cpu"

    @property
    def kubelet(self) -> Path:
        return self.at(self.kubelet_root)

    @property
    def cgroup_inodes(self) -> Path:
        """Inode and path of every cgroup: a captured tree cannot keep the inodes themselves."""
        return self.root / "cgroup-inodes.txt"

    @property
    def calibration(self) -> Path:
        """File of `numaudit doctor --calibrate`'s measurements."""
        return self.root / "var/lib/numaudit/calibration.json"

    @property
    def answers(self) -> Path:
        """The kubelet's recorded answers in a captured tree."""
        return self.root / "numaudit"

    def at(self, absolute: str) -> Path:
        """A path that the kernel or a process names (a mount point, a flag) inside this root: no `..` leads above it.

        As the kubelet cleans its paths, by their text alone: Go's filepath.Clean (cmd/kubelet/app/server.go).
        """
        return self.root / os.path.normpath(f"/{absolute}").lstrip("/")

    def name_of(self, path: Path) -> str:
        """A path inside this root as the host itself calls it, for messages."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)


def _what_it_is(path: Path) -> str:
    """Of what is no folder."""
    if not path.exists():
        return "no such folder or archive"
    device = "a device, " if path.is_char_device() or path.is_block_device() else ""
    return f"is {device}neither a folder nor an archive"


def _is_procfs(folder: Path) -> bool:
    """Of the kernel, and not by its looks: a captured tree from anyone may have any file."""
    try:
        descriptor = files.open_file(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    from numaudit.kernel.in_root import is_procfs  # noqa: PLC0415 (ctypes, for captures and mounted hosts alone)

    try:
        return is_procfs(descriptor)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=64)
def _below(root: Path, name: str) -> Path:
    """A tick asks for these thousands of times, and it takes longer to make a path than to read a small file."""
    return root / name


def read_bytes(path: str | os.PathLike[str], limit: int = LARGEST_FILE) -> bytes:
    """A whole file by plain system calls. Raises OSError, also when it is larger than `limit`."""
    descriptor = files.open_file(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        chunks = [os.read(descriptor, _CHUNK)]
        size = len(chunks[0])
        while chunks[-1]:
            # The C library maps a large buffer for each call, which a small file is not worth.
            chunks.append(os.read(descriptor, _CHUNK if len(chunks[-1]) < _CHUNK else _LARGE_CHUNK))
            size += len(chunks[-1])
            if size > limit:
                raise OSError(errno.EOVERFLOW, f"the file is larger than {limit} bytes", os.fspath(path))
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def read_text(path: str | os.PathLike[str], limit: int = LARGEST_FILE) -> str:
    """A whole file as UTF-8; other bytes become U+FFFD."""
    return read_bytes(path, limit).decode("utf-8", "replace")


def text_at(path: str | os.PathLike[str], limit: int = LARGEST_FILE) -> str | None:
    """The same without blanks around it; None = missing or unreadable: a node may go offline at any time."""
    try:
        return read_text(path, limit).strip()
    except OSError:
        return None


def number_at(path: str | os.PathLike[str]) -> int | None:
    """A file of sysfs that holds one number; None = missing, unreadable, or no number of at most 19 digits."""
    text = text_at(path) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def numbered(folder: Path, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Names in a folder that fit a pattern, by the number in it; none where the folder cannot be listed."""
    try:
        matches = [pattern.fullmatch(name) for name in files.names(folder)]
    except OSError:
        return []
    return sorted((int(match[1]), match[0]) for match in matches if match is not None)


def may_exist(path: Path) -> bool:
    """Is something there, or may it not be seen (as in a folder for root alone)? Then reading it says so."""
    try:
        files.status(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def is_pipe(path: Path) -> bool:
    """Is it a pipe, as far as it may be seen?"""
    try:
        return stat.S_ISFIFO(files.status(path).st_mode)
    except (OSError, ValueError):
        return False


def is_named_pipe(path: Path) -> bool:
    """Is it a pipe in a folder? Without a writer it never ends; one of a shell (`|`) does when its writer does."""
    return is_pipe(path) and os.path.lexists(os.path.realpath(path))


def explain(error: Exception, name: str | None = None) -> str:
    """An error in words: what, where, and what to do when it is a matter of rights. `name` is shown for the file's."""
    if not isinstance(error, OSError):
        return str(error)
    name = os.fsdecode(error.filename) if name is None and error.filename is not None else name
    where = "cannot read" if name is None else f"cannot read {name}"
    why = error.strerror or str(error)
    return f"{where}: {why}{_hint(error)}"


def _hint(error: OSError) -> str:
    if error.errno in TOO_MANY_FILES:
        return "; raise the limit (LimitNOFILE of the service, or ulimit -n)"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return ""
    return "; run as root" if os.geteuid() else "; refused even to root (a container, or a security module)"
