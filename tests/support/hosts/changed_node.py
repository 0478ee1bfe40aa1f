"""The captured node whose cpusets were changed by hand, and the kernel's part when they are changed back.

tests/fixtures/README.md: `misaligned-node` is `kubernetes-four-nodes` with the cpusets of two containers changed. So
what a remedy must write, and what the kernel makes of it, is in the node's capture before the change.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from fixture_trees import FIXTURES

BEFORE, CHANGED = FIXTURES / "kubernetes-four-nodes", FIXTURES / "misaligned-node"
_CGROUPS = "sys/fs/cgroup"


def changed_node(folder: Path) -> Path:
    """A copy, whose root it returns."""
    return shutil.copytree(CHANGED, folder / "node")


def remedies(printed: str) -> list[str]:
    """The commands that a report advises, in its order."""
    return [line.strip() for line in printed.splitlines() if line.strip().startswith("echo ")]


def carry_out(command: str, root: Path, run: Callable[[str], object]) -> None:
    """`run` it on the node; it must restore what was changed by hand, and then the kernel answers as it did before."""
    (path,) = re.findall(rf"/({_CGROUPS}\S+)$", command)
    assert (root / path).read_text() != (BEFORE / path).read_text()
    run(command.replace(f"/{path}", str(root / path)))
    assert (root / path).read_text() == (BEFORE / path).read_text()
    group = Path(path).parent
    of_processes = [f"proc/{pid}/status" for pid in (root / group / "cgroup.procs").read_text().split()]
    for name in (f"{path}.effective", *of_processes):
        shutil.copy(BEFORE / name, root / name)
