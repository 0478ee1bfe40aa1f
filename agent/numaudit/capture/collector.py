"""The program that `numaudit capture --from HOST` gives to the Python of another host: it prints a capture.

It is whole by itself: Python 3.6 or newer with its standard library, nothing of numaudit. Older ones understand its
first lines and say so. `remote.py` puts what it is to read before it. Source of escapes: fs/seq_file.c (mangle_path).
"""

import sys

if sys.version_info < (3, 6):
    sys.exit("numaudit: Python %d.%d is here, and a capture needs 3.6 or newer" % sys.version_info[:2])

import glob
import io
import json
import os
import re
import tarfile
import time
from typing import IO, Any, Dict, List, Set, Tuple

if "REQUEST" not in globals():
    REQUEST = {}  # type: Dict[str, Any]
"""`files`: patterns below /. `cgroup`: patterns in each group. `kubelet`: usual configuration files. `header`: of the
note. `words`: of the kernel's command line, those to keep. `note`, `unread`: names of files of the capture. `counters`:
patterns of what is read twice, `seconds` apart (0 = once), the first time into the folder `earlier`."""
LARGEST_FILE, LARGEST = 16 << 20, 512 << 20
"""Bytes of one file, and of all."""
MOST_FILES = 500000
_GONE = (2, 3, 19, 20, 22)  # ENOENT, ESRCH, ENODEV, ENOTDIR, and EINVAL of a process without mounts


def _read(path: str) -> bytes:
    """In pieces, for the kernel makes room for as much of a sysctl as is asked for. At most a little too much."""
    content = b""
    with open(path, "rb", 0) as file:
        while len(content) <= LARGEST_FILE:
            part = file.read(1 << 16)
            if not part:
                break
            content += part
    return content


def _without_secrets(name: str, content: bytes) -> bytes:
    """Some boards have their serial number in cpuinfo, and a kernel's parameters may be passwords. Of a table of ACPI
    its name is enough.
    """
    if name == "proc/cpuinfo":
        return b"".join(line for line in content.splitlines(True) if not line.startswith(b"Serial"))
    if name == "proc/cmdline":
        words = [word for word in content.split() if re.match("(?:%s)$" % REQUEST["words"], word.decode("latin-1"))]
        return b" ".join(words) + b"\n"
    return b"" if name.startswith("sys/firmware/acpi/") else content


class Capture:
    """An archive on its way to standard output."""

    def __init__(self, output: IO[bytes], root: str = "/") -> None:
        self.tar = tarfile.open(fileobj=output, mode="w|xz")
        self.root, self.size = root, 0
        self.unread = []  # type: List[str]
        self.done = set()  # type: Set[str]

    def copy(self, path: str, below: str = "") -> None:
        """One file as it is; one that is gone or was copied before is left out. `below`: folder of the capture."""
        if below + path in self.done or self.is_full():
            return
        self.done.add(below + path)
        try:
            content = _read(path)
        except OSError as error:
            if error.errno not in _GONE:
                self.unread.append("%s: %s" % (path, error.strerror))
            return
        content = _without_secrets(os.path.relpath(path, self.root), content)
        if len(content) > LARGEST_FILE:
            self.unread.append("%s: larger than %d bytes" % (path, LARGEST_FILE))
        else:
            self.add(os.path.join(below, os.path.relpath(path, self.root)), content)

    def is_full(self) -> bool:
        """No more is read; said once."""
        full = self.size > LARGEST or len(self.done) > MOST_FILES
        if full and "full" not in self.done:
            self.done.add("full")
            self.unread.append("the rest: the capture has %d files and %d bytes" % (len(self.done), self.size))
        return full

    def add(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo("capture/" + name)
        entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
        self.size += len(content)
        self.tar.addfile(entry, io.BytesIO(content))

    def add_folder(self, path: str) -> None:
        entry = tarfile.TarInfo("capture/" + os.path.relpath(path, self.root))
        entry.type, entry.mode = tarfile.DIRTYPE, 0o700
        self.tar.addfile(entry)


def copy_groups(capture: Capture) -> None:
    """Every cgroup hierarchy, and the inodes by which BPF and captures know groups."""
    lines = []
    with open(os.path.join(capture.root, "proc/mounts")) as mounts:
        found = [line.split(" ")[1:4] for line in mounts]
    for point, kind, options in found:
        if kind not in ("cgroup", "cgroup2"):
            continue
        top = os.path.join(capture.root, point.lstrip("/"))
        for folder, _, _ in os.walk(top):
            if capture.is_full():
                return
            capture.add_folder(folder)
            for pattern in REQUEST["cgroup"]:
                for path in glob.glob(glob.escape(folder) + "/" + pattern):
                    capture.copy(path)
            if kind == "cgroup2" or "memory" in options.split(","):
                name = "/" + os.path.relpath(folder, capture.root)
                escaped = "".join("\\%03o" % ord(one) if one in " \t\n\\" else one for one in name)
                lines.append("%d %s\n" % (os.stat(folder).st_ino, escaped))
    capture.add("cgroup-inodes.txt", "".join(lines).encode("utf-8", "surrogateescape"))


def copy_counters(capture: Capture, below: str = "") -> None:
    """One reading of what grows."""
    for pattern in REQUEST["counters"]:
        for path in glob.glob(os.path.join(capture.root, pattern)):
            capture.copy(path, below)
    copy_threads(capture, ("stat",), below)


def copy_threads(capture: Capture, names: Tuple[str, ...] = ("stat", "status"), below: str = "") -> None:
    """Of processes with several."""
    for folder in glob.glob(os.path.join(capture.root, "proc/[0-9]*/task")):
        try:
            threads = os.listdir(folder)
        except OSError:
            continue
        if len(threads) > 1:
            for thread in threads[:4096]:
                for name in names:
                    capture.copy(os.path.join(folder, thread, name), below)


def copy_kubelet(capture: Capture) -> None:
    """The configuration of a kubelet of the host's own: user 0 in init's namespaces."""
    names = []
    for folder in glob.glob(os.path.join(capture.root, "proc/[0-9]*")):
        try:
            with open(folder + "/comm") as comm:
                if comm.read().strip() != "kubelet" or os.stat(folder).st_uid != 0:
                    continue
            own = [os.readlink(folder + "/ns/" + one) for one in ("mnt", "pid", "user")]
            if own != [os.readlink(os.path.join(capture.root, "proc/1/ns", one)) for one in ("mnt", "pid", "user")]:
                continue
            with open(folder + "/cmdline", "rb") as file:
                words = file.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        kept = [word for word in words if word.split("=")[0].lstrip("-") in REQUEST["flags"] and "=" in word]
        capture.add(os.path.relpath(folder, capture.root) + "/cmdline", "\0".join(["kubelet"] + kept + [""]).encode())
        names += [word.split("=", 1)[1] for word in kept if word.startswith("--config=")]
    for name in names or REQUEST["kubelet"]:
        path = os.path.join(capture.root, name.lstrip("/"))
        if ".." in name.split("/") or not os.path.isfile(path):
            continue
        content = _read(path)
        if b"KubeletConfiguration" not in content or b"staticPodURLHeader" in content:
            capture.unread.append("%s: no configuration of a kubelet, or one with credentials" % path)
        else:
            capture.copy(path)


def main(output: IO[bytes], root: str = "/") -> None:
    """Write the capture."""
    capture = Capture(output, root)
    if REQUEST["seconds"]:
        copy_counters(capture, REQUEST["earlier"])
        time.sleep(REQUEST["seconds"])
        copy_counters(capture)  # at once, for the rest takes its time
    for pattern in REQUEST["files"]:
        for path in glob.glob(os.path.join(root, pattern)):
            if os.path.isfile(path):
                capture.copy(path)
    copy_threads(capture)
    copy_groups(capture)
    copy_kubelet(capture)
    for folder in glob.glob(os.path.join(root, "var/log/pods/*")):
        capture.add_folder(folder)
    note = dict(REQUEST["header"], host=os.uname()[1], takenAt=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    capture.add(REQUEST["note"], json.dumps(note).encode())
    capture.add(REQUEST["unread"], "".join("%s\n" % one for one in capture.unread).encode("utf-8", "replace"))
    capture.tar.close()


if __name__ == "__main__":
    main(sys.stdout.buffer)
