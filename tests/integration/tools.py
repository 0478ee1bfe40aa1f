"""Real programs for the tests: Debian packages, fetched with apt and unpacked below `.cache/tools`.

Nothing is installed on the system. Later suites come through package lists of their own. By hand:

    .venv/bin/python tests/integration/tools.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numaudit.errors import NumauditError, Unavailable

CACHE = Path(__file__).resolve().parents[2] / ".cache/tools"
_ARCHIVE = "http://deb.debian.org/debian"
_LATER_SUITES = ("trixie", "forky")


@dataclass(frozen=True, slots=True)
class Tool:
    """One package and its main program."""

    name: str
    package: str
    suite: str | None
    """None = the system's own."""
    program: str

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    @property
    def binary(self) -> Path:
        return self.folder / self.program


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("prometheus", "prometheus", None, "usr/bin/prometheus"),
        Tool("alertmanager", "prometheus-alertmanager", None, "usr/bin/prometheus-alertmanager"),
        Tool("prometheus-trixie", "prometheus", "trixie", "usr/bin/prometheus"),
        Tool("prometheus-forky", "prometheus", "forky", "usr/bin/prometheus"),
        Tool("victoria-metrics", "victoria-metrics", "forky", "usr/bin/victoria-metrics"),
        Tool("kustomize", "kustomize", "forky", "usr/bin/kustomize"),
        # Only its schema of compose files is used.
        Tool("docker-compose", "docker-compose", None, "usr/bin/docker-compose"),
        # Go's template engine with the functions that Helm's charts have; Helm itself is in no suite.
        Tool("chezmoi", "chezmoi", "forky", "usr/bin/chezmoi"),
        Tool("kubectl", "kubectl", "forky", "usr/bin/kubectl"),
        Tool("promtool-forky", "promtool", "forky", "usr/bin/promtool"),
    )
}


def find(name: str) -> Path:
    """The program of a tool fetched before. Raises Unavailable."""
    binary = TOOLS[name].binary
    if not os.access(binary, os.X_OK):
        raise Unavailable(f"no {name}; fetch it with: .venv/bin/python tests/integration/tools.py")
    return binary


def fetch(tool: Tool) -> None:
    """Download and unpack a tool unless it is there. Raises Unavailable."""
    if os.access(tool.binary, os.X_OK):
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="unpack-") as scratch:
        folder = Path(scratch)
        options = [] if tool.suite is None else _lists_of_later_suites()
        package = tool.package if tool.suite is None else f"{tool.package}/{tool.suite}"
        _run([*_apt("apt-get", options), "download", package], folder)
        debs = list(folder.glob("*.deb"))
        if len(debs) != 1:
            raise Unavailable(f"apt-get download {package} left {len(debs)} packages instead of one")
        unpacked = folder / "root"
        _run(["dpkg", "-x", str(debs[0]), str(unpacked)], folder)
        if not os.access(unpacked / tool.program, os.X_OK):
            raise Unavailable(f"the package {package} has no {tool.program}")
        shutil.rmtree(tool.folder, ignore_errors=True)
        unpacked.rename(tool.folder)


def _lists_of_later_suites() -> list[str]:
    """apt options for package lists of our own, fetched if they are not there."""
    apt = CACHE / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text("".join(f"deb {_ARCHIVE} {suite} main\n" for suite in _LATER_SUITES))
    options = [
        f"Dir::Etc::sourcelist={apt / 'sources.list'}",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::Lists={apt / 'lists'}",
        f"Dir::Cache={apt / 'cache'}",
    ]
    if not list((apt / "lists").glob("*_Packages*")):
        _run([*_apt("apt-get", options), "update"], apt)
    return options


def _apt(program: str, options: Sequence[str]) -> list[str]:
    # apt's own download user may not write into our folder
    settings = [part for option in ("APT::Sandbox::User=root", *options) for part in ("-o", option)]
    return [program, "-q", *settings]


def _run(command: Sequence[str], folder: Path) -> None:
    plain = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable(f"the command {command[0]} is missing: these tools come as Debian packages") from None
    if done.returncode:
        raise Unavailable(f"`{' '.join(command)}` failed ({done.returncode}): {done.stderr.strip()}")


def main() -> int:
    for tool in TOOLS.values():
        try:
            fetch(tool)
        except NumauditError as problem:
            print(f"tools: {tool.name}: {problem}", file=sys.stderr)
            if tool.suite is None:
                return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
