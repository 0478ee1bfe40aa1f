"""Debian's cloud kernels for the guest: fetched with apt, unpacked below `.cache/vm/kernels/SERIES`.

Nothing is installed on the system. By hand:

    .venv/bin/python tests/vm/kernels.py 6.1 6.12
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numaudit.errors import InputError, NumauditError, ParseError, Unavailable

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache/vm"

META_PACKAGES = {
    "6.1": "linux-image-cloud-amd64",
    "6.12": "linux-image-6.12-cloud-amd64",
}
"""Kernel series -> the package that depends on its newest build. Builds vanish from the archive, these stay."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One unpacked kernel package."""

    series: str
    root: Path

    @property
    def release(self) -> str:
        """What `uname -r` says under this kernel. Raises Unavailable when the folder is not one kernel's."""
        modules = self.root / "lib/modules"
        names = sorted(path.name for path in modules.iterdir()) if modules.is_dir() else []
        if len(names) != 1:
            raise Unavailable(f"{modules} holds {names or 'nothing'} instead of one kernel; remove {self.root}")
        return names[0]

    @property
    def image(self) -> Path:
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / self.release


def find(series: str) -> Kernel:
    """A kernel fetched before. Raises Unavailable when it is not there or not whole."""
    kernel = Kernel(series, CACHE / "kernels" / series)
    if not kernel.root.is_dir():
        raise Unavailable(f"no {series} kernel for the guest; fetch it with: .venv/bin/python tests/vm/kernels.py")
    _verify(kernel)
    return kernel


def fetch(series: str) -> Kernel:
    """Download and unpack the newest build of a series, unless one is there already.

    Raises InputError for a series we do not know, Unavailable when apt has no such package or a tool is missing.
    """
    if series not in META_PACKAGES:
        raise InputError(f"no kernel series {series!r} for the guest; known are {', '.join(META_PACKAGES)}")
    if (CACHE / "kernels" / series).is_dir():
        return find(series)
    (CACHE / "kernels").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="unpack-") as scratch:
        unpacked = Path(scratch) / "root"
        _run([tool("dpkg"), "-x", str(_download(series, Path(scratch))), str(unpacked)])
        kernel = Kernel(series, unpacked)
        _run([tool("depmod"), "-b", str(unpacked), kernel.release])
        _verify(kernel)
        try:
            unpacked.rename(CACHE / "kernels" / series)
        except OSError:
            if not (CACHE / "kernels" / series).is_dir():  # else another process was first
                raise
    return find(series)


def module_files(kernel: Kernel, names: Iterable[str]) -> list[Path]:
    """The files of these modules and of what they need, in loading order; built-in ones need no file.

    Raises Unavailable when the kernel has a module neither built in nor as a file.
    """
    dependencies = parse_modules_dep((kernel.modules / "modules.dep").read_text())
    built_in = {_module_name(line) for line in (kernel.modules / "modules.builtin").read_text().splitlines()}
    files = {_module_name(file): file for file in dependencies}
    wanted: dict[str, None] = {}

    def add(file: str) -> None:
        for needed in dependencies[file]:
            add(needed)
        wanted.setdefault(file)

    for name in names:
        if name in files:
            add(files[name])
        elif name not in built_in:
            raise Unavailable(f"kernel {kernel.release} has no module {name}, so the guest can not start with it")
    return [kernel.modules / file for file in wanted]


def parse_modules_dep(text: str) -> Mapping[str, Sequence[str]]:
    """`modules.dep`: module file -> the files it needs, paths relative to the modules folder (depmod(8))."""
    result = {}
    for line in text.splitlines():
        file, colon, needed = line.partition(":")
        if not colon:
            raise ParseError(f"modules.dep: no colon in {line[:80]!r}; run depmod again")
        result[file] = needed.split()
    return result


def tool(name: str) -> str:
    """The path of a program, also where only root's PATH leads. Raises Unavailable naming it."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"the guest needs {name}, which is not installed; run deploy/setup.sh")
    return path


def _module_name(file: str) -> str:
    return Path(file).name.partition(".")[0].replace("-", "_")


def _verify(kernel: Kernel) -> None:
    if not kernel.release.startswith(f"{kernel.series}."):
        raise Unavailable(f"{kernel.root} holds kernel {kernel.release}, not {kernel.series}; remove the folder")
    for path in (kernel.image, kernel.modules / "modules.dep", kernel.modules / "modules.builtin"):
        if not path.is_file() or not path.stat().st_size:
            raise Unavailable(f"{path} is missing or empty; remove {kernel.root} and fetch the kernel again")


def _download(series: str, folder: Path) -> Path:
    """The kernel's .deb, its hash checked by apt against the archive's signed lists.

    The system's package lists come first. When they are missing, or so old that the archive has dropped the
    build they name, a private copy of the lists is fetched.
    """
    lists = CACHE / "apt/lists"
    private = [f"Dir::State::Lists={lists}", f"Dir::Cache={CACHE / 'apt/cache'}"]
    try:
        return _download_with([], series, folder)
    except Unavailable as system_lists:
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        try:
            _run(_apt("apt-get", private, "update"))
            return _download_with(private, series, folder)
        except Unavailable as fresh_lists:
            raise Unavailable(
                f"apt cannot get a {series} kernel ({META_PACKAGES[series]}); "
                f"a Debian 12 (bookworm) amd64 package source is needed.\n"
                f"With the system's lists: {system_lists}\nWith fresh lists: {fresh_lists}"
            ) from None


def _download_with(options: Sequence[str], series: str, folder: Path) -> Path:
    meta = META_PACKAGES[series]
    depends = _run(_apt("apt-cache", options, "depends", meta))
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise Unavailable(f"apt-cache knows no kernel behind {meta}")
    _run(_apt("apt-get", options, "download", package[1]), folder)
    debs = list(folder.glob("*.deb"))
    if len(debs) != 1:
        raise Unavailable(f"apt-get download {package[1]} left {len(debs)} packages in {folder} instead of one")
    return debs[0]


def _apt(program: str, options: Sequence[str], *arguments: str) -> list[str]:
    # apt's own download user may not write into our folder
    settings = [part for option in ("APT::Sandbox::User=root", *options) for part in ("-o", option)]
    return [tool(program), "-q", *settings, *arguments]


def _run(command: Sequence[str], folder: Path = CHECKOUT) -> str:
    plain = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"`{' '.join(command)}` failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    try:
        for series in arguments or META_PACKAGES:
            kernel = fetch(series)
            print(f"{series}: {kernel.release} in {kernel.root}")
    except NumauditError as problem:
        print(f"kernels: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, InputError) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
