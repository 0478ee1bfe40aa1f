"""Debian packages of any architecture, fetched with package lists of our own: the system's stay as they are.

Its sources and keys are the system's, and so are mirrors and proxies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from numaudit.errors import Unavailable

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache/vm"

_ARCHIVE = "http://deb.debian.org/debian"
RETRY_AFTER = (5, 30)
"""Seconds: mirrors are updated and networks fail, mostly for moments."""


def fetch(
    architecture: str,
    packages: Sequence[str],
    root: Path,
    *,
    with_dependencies: bool = False,
    beside_the_system: bool = False,
    suite: str | None = None,
) -> None:
    """Unpack the newest builds of some packages below a folder; their scripts are not run.

    `beside_the_system`: what they need is unpacked, too, but for packages that this machine has installed.
    `suite`: None = the system's own.
    Raises Unavailable when apt does not have them after some tries.
    """
    for wait in (*RETRY_AFTER, None):
        try:
            if beside_the_system:
                return _fetch_missing(architecture, packages, root)
            return _fetch_once(architecture, packages, root, with_dependencies, suite)
        except Unavailable as failure:
            if wait is None:
                raise Unavailable(
                    f"apt cannot get {', '.join(packages)} for {architecture}; "
                    f"a Debian 12 (bookworm) package source is needed: {failure}"
                ) from None
            time.sleep(wait)


def put(made: Path, place: Path) -> None:
    """Move a folder that is whole to where it is looked for, unless another process was first."""
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def _fetch_once(
    architecture: str, packages: Sequence[str], root: Path, with_dependencies: bool, suite: str | None
) -> None:
    apt = _apt(architecture, suite=suite)
    run([tool("apt-get"), "-q", "update"], apt)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="debs-") as folder:
        if with_dependencies:
            install = [tool("apt-get"), "-q", "-y", "--no-install-recommends", "--download-only", "install"]
            run([*install, "-o", f"Dir::Cache::archives={folder}", *packages], apt)
        else:
            names = [_newest_build(package, apt) for package in packages]
            run([tool("apt-get"), "-q", "download", *names], apt, Path(folder))
        debs = sorted(Path(folder).glob("*.deb"))
        if len(debs) < len(packages):
            raise Unavailable(f"apt-get left {len(debs)} packages in {folder} instead of {len(packages)} or more")
        for deb in debs:
            run([tool("dpkg"), "-x", str(deb), str(root)])


def _fetch_missing(architecture: str, packages: Sequence[str], root: Path) -> None:
    apt = _apt(architecture, installed=Path("/var/lib/dpkg/status"))
    run([tool("apt-get"), "-q", "update"], apt)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="debs-") as folder:
        install = [tool("apt-get"), "-q", "-y", "--no-install-recommends", "--download-only", "install"]
        run([*install, "-o", f"Dir::Cache::archives={folder}", *packages], apt)
        for deb in sorted(Path(folder).glob("*.deb")):
            run([tool("dpkg"), "-x", str(deb), str(root)])


def _newest_build(package: str, apt: Path) -> str:
    """A kernel's metapackage holds nothing but depends on its newest build; any other package is its own."""
    depends = run([tool("apt-cache"), "depends", package], apt)
    build = re.search(r"Depends: (linux-image-\S+)", depends)
    return build[1] if build else package


def _apt(architecture: str, installed: Path | None = None, suite: str | None = None) -> Path:
    """A configuration file for apt, with package lists of its own, and no package installed unless a status says so."""
    own = CACHE / "apt" / "-".join((architecture, *(["beside"] if installed else []), *([suite] if suite else [])))
    for folder in ("state", "lists/partial", "cache/archives/partial"):
        (own / folder).mkdir(parents=True, exist_ok=True)
    (own / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",  # apt's own download user may not write into our folder
        "Acquire::Languages": "none",
        "Dir::State": own / "state",
        "Dir::State::Lists": own / "lists",
        "Dir::State::status": installed or own / "status",
        "Dir::Cache": own / "cache",
    }
    if suite is not None:
        (own / "sources.list").write_text(f"deb {_ARCHIVE} {suite} main\n")
        settings |= {"Dir::Etc::sourcelist": own / "sources.list", "Dir::Etc::sourceparts": "/dev/null"}
    file = own / "apt.conf"
    file.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return file


def run(command: Sequence[str], apt: Path | None = None, folder: Path = CHECKOUT) -> str:
    """What a command prints, with apt configured by a file. Raises Unavailable with the errors of one that fails."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    if apt:
        environment["APT_CONFIG"] = str(apt)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"`{' '.join(command)}` failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


def tool(name: str) -> str:
    """The path of a program, also where only root's PATH leads. Raises Unavailable naming it."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"the guest needs {name}, which is not installed; run deploy/setup.sh lab")
    return path
