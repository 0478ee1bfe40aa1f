"""Debian's cloud kernels for the guest: fetched with apt, unpacked below `.cache/vm/kernels/NAME`.

Nothing is installed on the system. By hand, with what the kernels of another architecture need beside them:

    .venv/bin/python tests/vm/kernels.py 6.1 6.12 arm64-6.12
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import debian
import userland
from architectures import AARCH64, X86_64, Architecture
from debian import CACHE, run, tool
from numaudit.errors import InputError, NumauditError, ParseError, Unavailable

KERNELS: Mapping[str, tuple[Architecture, str]] = {
    **{series: (X86_64, series) for series in X86_64.kernel_packages},
    **{f"arm64-{series}": (AARCH64, series) for series in AARCH64.kernel_packages},
}
"""Name -> architecture, and series as its packages have it."""

HOST_KERNELS = tuple(name for name, (architecture, _) in KERNELS.items() if not architecture.foreign)
"""The kernels of guests that share the host's programs."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One unpacked kernel package."""

    name: str
    """One of `KERNELS`."""
    root: Path

    @property
    def architecture(self) -> Architecture:
        return KERNELS[self.name][0]

    @property
    def series(self) -> str:
        return KERNELS[self.name][1].rpartition("-")[2]

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


def find(name: str) -> Kernel:
    """A kernel fetched before. Raises Unavailable when it is not there or not whole."""
    kernel = Kernel(name, CACHE / "kernels" / name)
    if not kernel.root.is_dir():
        raise Unavailable(f"no {name} kernel for the guest; fetch it with: .venv/bin/python tests/vm/kernels.py {name}")
    _verify(kernel)
    return kernel


def fetch(name: str) -> Kernel:
    """Download and unpack the newest build of a kernel and what its guest needs, unless they are there already.

    Raises InputError for a kernel we do not know, Unavailable when apt has no such package or a tool is missing.
    """
    if name not in KERNELS:
        raise InputError(f"no kernel {name!r} for the guest; known are {', '.join(KERNELS)}")
    architecture, series = KERNELS[name]
    userland.fetch(architecture)
    if (CACHE / "kernels" / name).is_dir():
        return find(name)
    (CACHE / "kernels").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="unpack-") as scratch:
        kernel = Kernel(name, Path(scratch) / "root")
        debian.fetch(architecture.debian, [architecture.kernel_packages[series]], kernel.root)
        run([tool("depmod"), "-b", str(kernel.root), kernel.release])
        _verify(kernel)
        debian.put(kernel.root, CACHE / "kernels" / name)
    return find(name)


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


def _module_name(file: str) -> str:
    return Path(file).name.partition(".")[0].replace("-", "_")


def _verify(kernel: Kernel) -> None:
    if not kernel.release.startswith(f"{kernel.series}."):
        raise Unavailable(f"{kernel.root} holds kernel {kernel.release}, not {kernel.series}; remove the folder")
    for path in (kernel.image, kernel.modules / "modules.dep", kernel.modules / "modules.builtin"):
        if not path.is_file() or not path.stat().st_size:
            raise Unavailable(f"{path} is missing or empty; remove {kernel.root} and fetch the kernel again")


def main(arguments: Sequence[str]) -> int:
    try:
        for name in arguments or KERNELS:
            kernel = fetch(name)
            print(f"{name}: {kernel.release} in {kernel.root}")
    except NumauditError as problem:
        print(f"kernels: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, InputError) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
