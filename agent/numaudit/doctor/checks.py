"""The checks of `numaudit doctor`: what this host can measure, and if not, why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY
from numaudit.containermanager.topologymanager.hints import LARGEST_ID, MOST_NODES
from numaudit.containermanager.topologymanager.policy import DEFAULT_MAX_NODES, MAX_ALLOWABLE
from numaudit.doctor.kubelet_answers import NAMES as ANSWERS
from numaudit.doctor.kubelet_answers import answer_checks, checkpoint_checks
from numaudit.doctor.outcome import failed
from numaudit.doctor.sources import SOURCE_CHECKS, Trial, check_sources
from numaudit.engine.collectors.probes.calibration import read_calibration
from numaudit.errors import Absent, NumauditError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.cgroup import Reader, find_hierarchies
from numaudit.kernel.host import Host, explain, read_text
from numaudit.kernel.memory import tiers
from numaudit.kernel.memory.numa_balancing import read_mode
from numaudit.kernel.node import read_machine
from numaudit.kernel.origin import kernel_of
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.probes.kinds import KINDS
from numaudit.probes.pmu import PMU
from numaudit.probes.probe import ProbeKind
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session
from numaudit.snapshot import Check
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import plural
from numaudit.topology.tiers import TierSettings, in_words

_Basic = Callable[[str, Host], Check]

_HOSTS_PID_NAMESPACE = 0xEFFFFFFC
_CGROUPS, _NODES = 256, 4
"""Room enough in the maps for a trial."""


def examine(
    host: Host,
    session: Session | None = None,
    readings: KubeletReadings | None = None,
) -> tuple[Check, ...]:
    """All checks, in the order of the chain of evidence. One that fails says so and stops no other.

    Without a session, each BPF program is tried: loaded, attached, and taken out again; and so is whether it
    notices a test load, which takes a few seconds, and the kubelet is asked. With one: `readings` are what its owner
    read of the kubelet, None = there is none.
    """
    if session is not None:
        # The agent says itself what each source of the kubelet answered.
        return _examine(host, session, _checkpoints(host, readings), under_load=False)
    with Session.open(host, KINDS, cgroups=_CGROUPS, nodes=_NODES) as tried:
        return _examine(host, tried, _of_kubelet(host), under_load=True)


def _examine(host: Host, session: Session, of_kubelet: Sequence[Check], under_load: bool) -> tuple[Check, ...]:
    basic = [_guarded(name, host, check) for name, check in _CHECKS.items()]
    measured = (*probe_checks(session), *check_sources(Trial(host, session, under_load)))
    if host.is_live and _has_one_node(host):
        # Nothing is missed, but why a probe does not run stays worth knowing.
        measured = tuple([one if one.works else replace(one, state="n/a") for one in measured])
    return (*basic, *of_kubelet, *measured)


def _has_one_node(host: Host) -> bool:
    """Is all memory local, so that nothing is missed that tells where it is used?"""
    try:
        return len(read_machine(host).nodes) == 1
    except (NumauditError, OSError):
        return False


def _of_kubelet(host: Host) -> tuple[Check, ...]:
    poller = KubeletPoller.of(host)
    try:
        readings = poller.poll(())
    except Unavailable:
        return ()
    except (NumauditError, OSError, ValueError) as error:
        return (failed(MEMORY, error),)
    finally:
        poller.close()
    return (*_checkpoints(host, readings), *answer_checks(readings))


def _checkpoints(host: Host, readings: KubeletReadings | None) -> tuple[Check, ...]:
    try:
        return () if readings is None else tuple(checkpoint_checks(host, readings))
    except (NumauditError, OSError, ValueError) as error:
        return (failed(MEMORY, error),)


def names() -> tuple[str, ...]:
    """Of all checks that there are, in the order of `examine`; those of a kubelet only come where there is one."""
    probes = (f"bpf {kind.name}" for kind in KINDS if kind is not PMU)
    return (
        *_CHECKS,
        MEMORY,
        CPU,
        DEVICES,
        CLAIMS,
        *ANSWERS,
        *probes,
        *(f"access {one.source}" for one in SOURCE_CHECKS),
    )


def _guarded(name: str, host: Host, check: _Basic) -> Check:
    try:
        return check(name, host)
    except (NumauditError, OSError, ValueError) as error:
        return failed(name, error)


def probe_checks(session: Session) -> tuple[Check, ...]:
    """Each kind of BPF probe: on what it hangs, or why it does not run."""
    return tuple(_probe_check(kind, session) for kind in KINDS if kind is not PMU)


def _probe_check(kind: ProbeKind[Any], session: Session) -> Check:
    probe = session.probe(kind)
    if isinstance(probe, ProbeRefusal):
        return failed(f"bpf {kind.name}", probe)
    how = [f"runs, {probe.how}" if probe.how else "runs"]
    if kind.name in session.compiled:
        how.append(f"compiled here, for {session.compiled[kind.name]}")
    return Check(f"bpf {kind.name}", "ok", "; ".join(how))


def _kernel(name: str, host: Host) -> Check:
    return Check(name, "ok", kernel_of(host) or "unknown")


def _nodes(name: str, host: Host) -> Check:
    machine = read_machine(host)
    nodes = len(machine.nodes)
    detail = (
        f"{nodes} online ({machine.online}), {len(machine.with_memory)} with memory, {len(machine.with_cpus)} with CPUs"
    )
    detail = "; ".join((detail, *_for_a_kubelet(machine)))
    problems = [one for one in (machine.cpu_problem, machine.distance_problem) if one is not None]
    if problems:
        hint = "where CPUs are not known, no verdict that depends on them is given; see /sys/devices/system/node"
        return Check(name, "reduced", "; ".join((detail, *problems)), hint)
    if nodes == 1:
        return Check(name, "reduced", detail, _of_one_node(machine))
    return Check(name, "ok", detail)


def _of_one_node(machine: Machine) -> str:
    """Several sockets that show one node may hide where memory is."""
    sockets = {cpu.socket for cpu in machine.cpus} - {None}
    if len(sockets) > 1:
        return f"{len(sockets)} sockets and one node: `numaudit setup` says whether memory is spread over the sockets"
    return "with one node all memory is local, so nothing can be misplaced"


def _for_a_kubelet(machine: Machine) -> Iterator[str]:
    """Effects of an unusual machine on a kubelet's managers.

    Source: pkg/kubelet/cm/topologymanager/topology_manager.go (NewManager), bitmask/bitmask.go (Add), and cAdvisor's
    utils/sysinfo/sysinfo.go (getCoresInfo).
    """
    count = len(machine.nodes)
    if count > DEFAULT_MAX_NODES:
        yield (
            f"with a Topology Manager policy a kubelet starts on more than {DEFAULT_MAX_NODES} nodes only where its "
            f"option {MAX_ALLOWABLE} allows them"
        )
    if count > MOST_NODES:
        yield f"a kubelet tries all 2^{count} sets of them for a pod, and numaudit does not foretell its decision"
    beyond = NodeSet.from_ids(node.id for node in machine.nodes if node.id > LARGEST_ID)
    if beyond:
        yield f"a kubelet cannot place anything on this machine, for its masks end at node {LARGEST_ID}: {beyond}"
    by_id = {(cpu.node, cpu.socket, cpu.core) for cpu in machine.cpus if cpu.core is not None}
    by_siblings = {(cpu.node, cpu.siblings) for cpu in machine.cpus if cpu.core is not None and cpu.siblings}
    if by_siblings and len(by_id) != len(by_siblings):
        yield (
            f"a kubelet counts {plural(len(by_id), 'core')}, by core_id, and thread_siblings_list has "
            f"{len(by_siblings)}"
        )


def _rights(name: str, host: Host) -> Check:
    if not host.is_live:
        return Check(name, "ok", "a captured tree needs none")
    if os.geteuid() == 0:
        return Check(name, "ok", "root")
    return Check(name, "reduced", f"user id {os.geteuid()}", "run as root to read other users' processes")


def _cgroup(name: str, host: Host) -> Check:
    found = find_hierarchies(host)
    if not found.is_whole:
        hint = "run in the host's cgroup namespace, or mount the host's /sys/fs/cgroup here"
        return Check(
            name, "reduced", f"{found.mode}, in a cgroup namespace: the host's other groups cannot be seen", hint
        )
    if found.is_v2:
        return Check(name, "ok", "v2")
    why = "shared memory is counted as anon, kernel memory is not split, and BPF programs cannot tell containers apart"
    return Check(name, "reduced", f"{found.mode}: {why}", "boot with systemd.unified_cgroup_hierarchy=1 for cgroup v2")


def _residency(name: str, host: Host) -> Check:
    reader = Reader(find_hierarchies(host))
    reader.resident("")
    return Check(name, "ok", "memory.numa_stat shows bytes by node")


def _cpuset(name: str, host: Host) -> Check:
    found = find_hierarchies(host)
    if found.cpuset is None:
        return Check(name, "missing", "no cpuset controller is mounted", "mount it, or boot with cgroup v2")
    allowed = Reader(found).allowed("")
    return Check(name, "ok", f"CPUs {allowed.cpus}, nodes {allowed.nodes}")


def _huge_pages(name: str, host: Host) -> Check:
    machine = read_machine(host)
    if not any(pages.total for node in machine.nodes for pages in node.huge_pages):
        return Check(name, "ok", "none are reserved on this host")
    if find_hierarchies(host).hugetlb is None:
        return Check(name, "missing", "huge pages exist, but no hugetlb controller", "mount the hugetlb controller")
    return Check(name, "ok", "the hugetlb controller counts them")


def _numa_maps(name: str, host: Host) -> Check:
    try:
        read_text(host.proc / "1" / "numa_maps", limit=1 << 30)
    except FileNotFoundError:
        return Check(name, "missing", "the kernel has no /proc/PID/numa_maps, or process 1 is not shown")
    except PermissionError as error:
        hint = "CAP_PERFMON or CAP_SYS_PTRACE is needed for other users' processes" if os.geteuid() else None
        return Check(name, "reduced", explain(error), hint)
    if host.is_live and _is_own_pid_namespace(host):
        hint = "run in the host's PID namespace (docker run --pid=host; hostPID: true in Kubernetes)"
        return Check(
            name, "reduced", "only the processes of this PID namespace can be read, not the host's others", hint
        )
    return Check(name, "ok", "mapping kinds and memory policies can be read")


def _is_own_pid_namespace(host: Host) -> bool:
    """The host's own always has the same number. Source: include/linux/proc_ns.h (PROC_PID_INIT_INO)."""
    descriptor = files.open_namespace(host.proc / "self/ns/pid")
    try:
        return os.fstat(descriptor).st_ino != _HOSTS_PID_NAMESPACE
    finally:
        os.close(descriptor)


def _tiers(name: str, host: Host) -> Check:
    found = tiers.read(host)
    if found is None:
        detail = "no memory tiers are shown here, so whether the kernel demotes memory is not known"
        return Check(name, "n/a", detail, reason="not-shown")
    nodes = "; ".join(f"tier {tier.id}: nodes {tier.nodes}" for tier in found.tiers)
    detail = f"{in_words(len(found.tiers), tiers.read_settings(host))} ({nodes})"
    return Check(name, "ok", detail)


def _balancing(name: str, host: Host) -> Check:
    value = read_text(host.proc / "sys/kernel/numa_balancing").strip()
    if value == "0":
        return Check(name, "ok", "off: the kernel does not move pages by itself")
    mode = read_mode(host)
    if mode is None or mode.samples_accesses:
        return Check(name, "ok", f"on ({value}): the kernel may move pages between the allowed nodes")
    words = TierSettings(None, mode.flags).balancing_in_words
    return Check(name, "ok", f"on ({value}, {words}): the kernel looks at pages of slow memory tiers only")


def _kubelet(name: str, host: Host) -> Check:
    found = []
    for file in ("memory_manager_state", "cpu_manager_state"):
        with suppress(FileNotFoundError, NotADirectoryError):
            files.status(host.kubelet / file)
            found.append(file)
    if not found:
        return Check(name, "n/a", f"no checkpoint in {host.kubelet_root}: no kubelet has run here", reason="no-kubelet")
    return Check(name, "ok", ", ".join(found))


def _calibration(name: str, host: Host) -> Check:
    """Without one, published figures do: nothing is missing."""
    try:
        found = read_calibration(host, read_machine(host))
    except Absent as error:
        return Check(name, "n/a", str(error), reason="not-calibrated")
    except Unavailable as error:
        return Check(name, "reduced", str(error))
    return Check(name, "ok", f"latency between {plural(len(found.latencies()), 'pair')} of nodes is known")


_CHECKS: dict[str, _Basic] = {
    "kernel": _kernel,
    "numa nodes": _nodes,
    "rights": _rights,
    "cgroup": _cgroup,
    "residency": _residency,
    "cpuset": _cpuset,
    "huge pages": _huge_pages,
    "numa_maps": _numa_maps,
    "memory tiers": _tiers,
    "numa balancing": _balancing,
    "calibration": _calibration,
    "kubelet": _kubelet,
}
