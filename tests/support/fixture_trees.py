"""The captured hosts as folders: tests/fixtures with its archives unpacked.

python tests/support/fixture_trees.py                  unpack all; prints the folder
python tests/support/fixture_trees.py FOLDER           pack it as tests/fixtures/NAME.tar.xz
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO

_SOURCE = Path(__file__).resolve().parents[1] / "fixtures"
_CACHE = (_SOURCE.parents[1] / ".cache/fixtures").resolve()
_SUFFIX = ".tar.xz"
_PACKED_AT = 1_700_000_000


def unpack(cache: Path = _CACHE) -> Path:
    """A folder with every fixture by its name. Written once for each content, also when several processes ask."""
    target = cache / _digest()
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=cache))
    try:
        partial.chmod(0o755)
        _write_all(partial)
        partial.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was quicker
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def pack(folder: Path, archive: Path) -> None:
    """One compressed file."""
    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as stream:
        write_tar(folder, stream)


def write_tar(folder: Path, stream: IO[bytes]) -> None:
    """Bytes that depend on names, contents and links only."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() else 0o644
        entry.mtime = _PACKED_AT
        return entry

    with tarfile.open(None, "w", stream) as tar:
        tar.add(folder, arcname=folder.name, filter=plain)  # tarfile sorts what is in a folder


def _write_all(target: Path) -> None:
    for entry in sorted(_SOURCE.iterdir()):
        if entry.name.endswith(_SUFFIX):
            with tarfile.open(entry) as archive:
                archive.extractall(target)
        elif entry.is_dir():
            shutil.copytree(entry, target / entry.name, symlinks=True)


def _digest() -> str:
    files = [Path(__file__).resolve(), *(path for path in _SOURCE.rglob("*") if path.is_file())]
    tests = _SOURCE.parent
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.relative_to(tests)}\n" for file in sorted(files)]
    return hashlib.sha256("".join(sums).encode()).hexdigest()[:16]


FIXTURES = unpack()

if __name__ == "__main__":
    if len(sys.argv) > 1:
        to_pack = Path(os.path.normpath(sys.argv[1]))
        pack(to_pack, _SOURCE / f"{to_pack.name}{_SUFFIX}")
    else:
        print(FIXTURES)
