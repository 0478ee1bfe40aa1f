"""Are all cgroups read in one walk, or by their files? Both say the same; a walk costs less."""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.containers.inventory import Inventory
from numaudit.engine.cgroup_walks import CgroupWalks
from numaudit.errors import NumauditError
from numaudit.kernel.cgroup import Reader, find_hierarchies
from numaudit.kernel.host import Host, explain
from numaudit.kernel.node import read_machine
from numaudit.snapshot import Check, CollectorOutcome

NAME = "cgroup walk"
_WORKS = "the agent reads all cgroups in one walk, not by their files"
_NOT_NEEDED = "figures are the same by files; the agent takes more CPU time"


def check(name: str, host: Host) -> Check:
    """Load a walk and compare it with files. Raises NumauditError and OSError for a host without cgroups."""
    if not host.is_live:
        return Check(name, "ok", "a captured tree is read by its files")
    hierarchies = find_hierarchies(host)
    if not hierarchies.is_v2:
        return _by_files(name, f"cgroup {hierarchies.mode}: there is a walk for cgroup v2 only")
    machine = read_machine(host)
    walks = CgroupWalks(host, Reader(hierarchies, page_size=machine.page_size))
    try:
        walks.load(Inventory(host, hierarchies).take(), machine)
    except (NumauditError, OSError) as error:
        return _by_files(name, explain(error))
    finally:
        walks.close()
    return Check(name, "ok", _WORKS)


def of_outcomes(sources: Sequence[CollectorOutcome]) -> Check:
    """The same for an agent, by its newest tick."""
    found = next((one for one in sources if one.source == NAME), None)
    if found is None:
        return _by_files(NAME, "this agent makes no walk here")
    return Check(NAME, "ok", _WORKS) if found.state == "ok" else _by_files(NAME, found.reason or found.state)


def _by_files(name: str, why: str) -> Check:
    return Check(name, "reduced", f"files are read: {why}", _NOT_NEEDED)
