"""The programs of a guest: the host's own, or, for another architecture, Debian's, unpacked below `.cache/vm/NAME`.

What Python runs there is compiled here: an emulated CPU would take seconds for it in each process, a host may have
bytecode switched off, as many containers have, and a fresh checkout has none.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import debian
from architectures import X86_64, Architecture
from debian import CACHE, CHECKOUT, run, tool
from numaudit.errors import Unavailable

PACKAGES = (
    *("base-passwd", "bash", "coreutils", "findutils", "grep", "mawk", "mount", "procps", "sed", "util-linux"),
    *("busybox-static", "kmod", "numactl", "openssl", "python3", "python3-bpfcc", "runc"),
)
"""What the tests and the guest's init use."""
PYTHON_PACKAGES = ("bcrypt", "jsonschema", "pytest")
"""What the tests use beside numaudit's own dependencies."""

_OF_CHECKOUT = ("agent", "tests/conftest.py", "tests/support", "tests/vm")
_PYTHON = f"usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
_OF_ROOT = (_PYTHON, "usr/lib/python3/dist-packages")
_MOUNT_POINTS = ("dev", "proc", "root", "run", "sys", "tmp", "var/tmp")
_FETCH_IT = "fetch it with: .venv/bin/python tests/vm/kernels.py"
_SITE_PACKAGES = Path(sysconfig.get_path("platlib"))


@dataclass(frozen=True, slots=True)
class Userland:
    """What a guest runs, as paths on this host."""

    qemu: str
    busybox: str
    folders: Mapping[str, str] = field(default_factory=lambda: {"/": "/"})
    """Folder in the guest -> what is there, on this host; outer ones first. The guest's changes stay in the guest."""


def find(architecture: Architecture) -> Userland:
    """What was fetched before. Raises Unavailable with what is missing."""
    if not architecture.foreign:
        return Userland(tool(architecture.qemu), tool("busybox"))
    here = CACHE / architecture.debian
    for part in ("qemu", "root", "site-packages"):
        if not (here / part).is_dir():
            raise Unavailable(f"{here / part} is missing; {_FETCH_IT}")
    if (here / "site-packages/requirements.txt").read_text() != requirements():
        raise Unavailable(f"{here / 'site-packages'} holds other packages than {_SITE_PACKAGES}; {_FETCH_IT}")
    folders = {"/": here / "root", str(CHECKOUT): CHECKOUT, str(_SITE_PACKAGES): here / "site-packages"}
    qemu = here / "qemu/usr/bin" / architecture.qemu
    return Userland(str(qemu), str(here / "root/bin/busybox"), {at: str(folder) for at, folder in folders.items()})


def fetch(architecture: Architecture) -> None:
    """Download what is not there yet, about 150 MB. Raises Unavailable."""
    if not architecture.foreign:
        return
    here = CACHE / architecture.debian
    here.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=here, prefix="unpack-") as folder:
        scratch = Path(folder)
        if not (here / "qemu").is_dir():
            debian.fetch(X86_64.debian, [architecture.qemu_package], scratch / "qemu")
            debian.put(scratch / "qemu", here / "qemu")
        if not (here / "root").is_dir():
            _make_root(architecture, scratch / "root")
            debian.put(scratch / "root", here / "root")
        compile_root(here / "root")
        stamp = here / "site-packages/requirements.txt"
        if not stamp.is_file() or stamp.read_text() != requirements():
            _install_wheels(architecture, scratch / "site-packages", scratch / "requirements.txt")
            shutil.rmtree(here / "site-packages", ignore_errors=True)
            debian.put(scratch / "site-packages", here / "site-packages")


def _make_root(architecture: Architecture, root: Path) -> None:
    """A root on which no package's script has run: what those would do for us is done here."""
    debian.fetch(architecture.debian, PACKAGES, root, with_dependencies=True)
    for name in _MOUNT_POINTS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in {"sh": "bash", "awk": "mawk"}.items():
        (root / "bin" / name).symlink_to(target)
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")


def _install_wheels(architecture: Architecture, site_packages: Path, file: Path) -> None:
    """The versions that run here, for the CPUs of the guest; numaudit itself is this checkout's."""
    wanted = requirements()
    file.write_text(wanted)
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site_packages), "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}"]
    for level in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"):
        command += ["--platform", f"{level}_{architecture.name}"]
    run([*command, "--requirement", str(file)])
    (site_packages / "numaudit.pth").write_text(f"{CHECKOUT / 'agent'}\n")
    (site_packages / "requirements.txt").write_text(wanted)


def requirements() -> str:
    """numaudit's dependencies and the tests', each as `name==version` where the virtual environment has it."""
    here = {_normal(one.name): one.version for one in importlib.metadata.distributions(path=[str(_SITE_PACKAGES)])}
    wanted: dict[str, str] = {}
    asked = ["numaudit", *PYTHON_PACKAGES]
    while asked:
        requirement = asked.pop()
        name = _normal(re.match(r"[\w.-]+", requirement)[0])  # type: ignore[index]
        if name in wanted:
            continue
        # What is not in the virtual environment comes with the host's Python, whose version does not matter here.
        wanted[name] = f"{name}=={here[name]}" if name in here else requirement
        if name in here:
            needed = importlib.metadata.distribution(name).requires or []
            asked += [one for one in needed if ";" not in one]
    del wanted["numaudit"]
    return "".join(f"{line}\n" for line in sorted(wanted.values()))


def _normal(name: str) -> str:
    """A project's name in the one form that stands for all (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def beside_the_source() -> dict[str, str]:
    """This process's environment, for a Python that writes bytecode where a guest's looks for it."""
    elsewhere = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    return {name: value for name, value in os.environ.items() if name not in elsewhere}


@cache
def compile_checkout() -> None:
    """What has changed since the last time. pytest does so itself with the modules of tests, when they are listed."""
    _compile("-q", *_OF_CHECKOUT)


def compile_root(root: Path) -> None:
    """The standard library in a root of another architecture, if its Python reads the same bytecode as this one."""
    if (root / _PYTHON).is_dir() and not (root / _PYTHON / "__pycache__").is_dir():
        _compile("-qq", "-s", str(root), "-p", "/", *(str(root / folder) for folder in _OF_ROOT))


def _compile(*arguments: str) -> None:
    """What cannot be compiled fails where it is imported, with its reason."""
    command = [sys.executable, "-m", "compileall", *arguments]
    subprocess.run(command, cwd=CHECKOUT, env=beside_the_source(), check=False)
