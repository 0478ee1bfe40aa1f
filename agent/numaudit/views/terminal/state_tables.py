"""The tables of `numaudit state`, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from numaudit.api.state_document import StateDifference, StateVerification
from numaudit.checkpoints.formats.claims import Claim, ClaimCheckpoint
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import NO_NODE, DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.memory.state import Block
from numaudit.containermanager.pod.spec import PodName, with_names
from numaudit.errors import printable
from numaudit.report.words import size
from numaudit.topology.nodeset import NodeSet
from numaudit.views.notes import state_notes
from numaudit.views.terminal.report_tables import print_notes
from numaudit.views.terminal.terminal import TableRow, print_rows

_STYLE = {"no": "red", "at risk": "yellow", "yes": "green"}
Pods = Mapping[str, PodName]
"""UID -> name."""
_NO_NAMES: Pods = {}
_MIB = 1 << 20
_INDENT = 24
"""Columns before a fact's value."""


def print_verification(verification: StateVerification, out: Console) -> None:
    """The file's format and checksum, what the kubelet makes of it, then each finding with its remedy."""
    _line(out, Text(printable(verification.file), "bold"))
    for name, value in _facts(verification):
        _print_fact(name, Text(printable(value), _STYLE.get(value, "")), out)
    names = _names(verification.pods)
    named = [
        replace(one, message=with_names(one.message, names), where=with_names(one.where, names))
        for one in verification.findings
    ]
    print_notes(state_notes(named), out, indent="  ")


def _print_fact(name: str, value: Text, out: Console) -> None:
    """A value that is too long for the line goes on below itself."""
    lines = [value] if value.cell_len <= out.width - _INDENT else value.wrap(out, max(out.width - _INDENT, _INDENT))
    for number, line in enumerate(lines):
        line.rstrip()
        _line(out, Text(" " * _INDENT if number else f"  {name:<{_INDENT - 2}}"), line)


def print_content(checkpoint: Checkpoint, out: Console, pods: Pods = _NO_NAMES) -> None:
    """Everything the file holds. Sizes are rounded; `-o json` has the bytes."""
    for titles, rows in _tables(checkpoint, pods):
        if rows:
            _line(out)
            print_rows(titles, rows, out)
        else:
            _line(out, Text("  no promises"))


def _tables(checkpoint: Checkpoint, pods: Pods) -> Iterator[tuple[Sequence[str], list[TableRow]]]:
    """Titles and rows."""
    if isinstance(checkpoint, MemoryCheckpoint):
        yield (
            ("NODE", "GROUP", ">PROMISES", "TYPE", ">TOTAL", ">SYSTEM", ">ALLOCATABLE", ">PROMISED", ">FREE"),
            list(_nodes_of(checkpoint)),
        )
        yield ("POD", "CONTAINER", "TYPE", "NODES", ">SIZE"), list(_blocks(checkpoint, pods))
    elif isinstance(checkpoint, CpuCheckpoint):
        yield ("POD", "CONTAINER", "~CPUS"), list(_cpus(checkpoint, pods))
    elif isinstance(checkpoint, ClaimCheckpoint):
        yield ("CLAIM", "PODS", "DRIVER", "DEVICE", "REQUESTS", "~CDI"), list(_claims(checkpoint, pods))
    else:
        yield ("POD", "CONTAINER", "RESOURCE", "NODE", "~DEVICES"), list(_devices(checkpoint, pods))


def print_difference(difference: StateDifference, out: Console) -> None:
    """One line for each value that differs."""
    if not difference.differences:
        _line(out, Text(printable(f"{difference.left} and {difference.right} are the same")))
        return
    _line(out, Text(printable(f"A: {difference.left}")))
    _line(out, Text(printable(f"B: {difference.right}")))
    _line(out)
    names = _names(difference.pods)
    rows = (
        (printable(with_names(one.where, names)), _value(one.left), _value(one.right)) for one in difference.differences
    )
    print_rows(("~WHERE", "~A", "~B"), rows, out)


def _facts(verification: StateVerification) -> Iterator[tuple[str, str]]:
    if verification.stored_checksum is not None:
        policy = verification.policy_name
        yield "checkpoint", verification.checkpoint or "unknown"
        yield "format", verification.format or "none that fits the checksum"
        if policy is not None:
            yield "policy", policy
        stored, computed = verification.stored_checksum, verification.computed_checksum
        yield "checksum", f"{stored}, " + ("as computed" if stored == computed else f"computed {computed}")
    yield "kubelet", _kubelet(verification)
    if verification.machine_problem is not None:
        yield "machine", f"not compared: {verification.machine_problem}"
    if verification.replayed_on is not None:
        on = "this machine" if verification.replayed_on == "machine" else "the file's own totals"
        yield "replay", f"on {on}: {'the same' if verification.first_difference is None else 'different'}"
    if verification.first_difference is not None:
        yield "first difference", verification.first_difference
    if verification.refusal is not None:
        yield "kubelet says", verification.refusal
    yield "valid", "yes" if verification.valid else "no"
    yield "kubelet starts now", _starts_now(verification)
    yield "after a reboot", verification.starts_after_reboot


def _starts_now(verification: StateVerification) -> str:
    """The answer; of `unknown` the reason, unless another line has it."""
    explained = verification.machine_problem is not None or any(one.stops == "unknown" for one in verification.findings)
    if verification.starts_now != "unknown" or explained:
        return verification.starts_now
    return "unknown: not compared with the machine that it is from; run `numaudit state verify` there"


def _kubelet(verification: StateVerification) -> str:
    """The kubelet that is to start: `1.36 (log), policy Static (file), PodLevelResourceManagers off (default)`."""
    kubelet = verification.kubelet
    gate = kubelet.pod_level_resource_managers
    values = {
        "version": kubelet.version,
        "policy": None if kubelet.policy is None else f"policy {kubelet.policy}",
        "podLevelResourceManagers": None if gate is None else f"PodLevelResourceManagers {'on' if gate else 'off'}",
    }
    return ", ".join(f"{text} ({kubelet.sources.get(name, '?')})" for name, text in values.items() if text is not None)


def _names(pods: Pods) -> dict[str, str]:
    """UID -> name, of the pods that have one."""
    return {uid: one.full_name for uid, one in pods.items() if one.full_name is not None}


def _pod(uid: str, pods: Pods) -> str:
    """namespace/pod, else the UID; marked where the pod is gone."""
    one = pods.get(uid)
    if one is None:
        return printable(uid)
    return printable(one.full_name or uid) + (" (stale)" if one.stale else "")


def _nodes_of(checkpoint: MemoryCheckpoint) -> Iterator[TableRow]:
    for id_, node in sorted((checkpoint.machine or {}).items()):
        for resource, row in sorted(node.memory_map.items()):
            sizes = (row.total, row.system_reserved, row.allocatable, row.reserved, row.free)
            names = (str(id_), _nodes(node.cells), str(node.number_of_assignments), printable(resource))
            yield (*names, *(size(amount) for amount in sizes))


def _blocks(checkpoint: MemoryCheckpoint, pods: Pods) -> Iterator[TableRow]:
    for uid, containers in sorted((checkpoint.entries or {}).items()):
        for name, blocks in sorted(containers.items()):
            yield from _of_blocks(_pod(uid, pods), printable(name), blocks)
    for uid, of_pod in sorted((checkpoint.pod_entries or {}).items()):
        yield from _of_blocks(_pod(uid, pods), "(whole pod)", of_pod or ())


def _of_blocks(pod: str, name: str, blocks: tuple[Block, ...]) -> Iterator[TableRow]:
    for block in blocks:
        yield pod, name, printable(block.type), _nodes(block.numa_affinity), size(block.size)
    if not blocks:
        yield pod, name, "none", "", ""


def _cpus(checkpoint: CpuCheckpoint, pods: Pods) -> Iterator[TableRow]:
    yield "(shared)", "", checkpoint.default_cpu_set or "none"
    for uid, containers in sorted((checkpoint.entries or {}).items()):
        for name, cpus in sorted(containers.items()):
            yield _pod(uid, pods), printable(name), cpus
    for uid, cpus in sorted((checkpoint.pod_entries or {}).items()):
        yield _pod(uid, pods), "(whole pod)", cpus


def _devices(checkpoint: DeviceCheckpoint, pods: Pods) -> Iterator[TableRow]:
    for entry in checkpoint.entries or ():
        names = (printable(entry.container_name), printable(entry.resource_name))
        for where, ids in _by_node(entry):
            yield _pod(entry.pod_uid, pods), *names, where, printable(" ".join(ids))
    for resource, healthy in sorted((checkpoint.registered or {}).items()):
        yield "(registered)", "", printable(resource), "", printable(" ".join(healthy or ()))


def _claims(checkpoint: ClaimCheckpoint, pods: Pods) -> Iterator[TableRow]:
    for claim in checkpoint.claims or ():
        who = (f"{claim.namespace}/{claim.name}", " ".join(_pod(uid, pods) for uid in claim.pod_uids or ()) or "none")
        for prepared in _prepared(claim):
            yield tuple(printable(text) for text in (*who, *prepared))


def _prepared(claim: Claim) -> Iterator[tuple[str, str, str, str]]:
    """Driver, device, requests and CDI names of each device; a claim without any has one line, too."""
    for driver, devices in (claim.drivers or {"none": None}).items():
        for one in devices or ():
            share = "" if one.share_id is None else f" share {one.share_id}"
            name = f"{one.pool}/{one.name}{share}"
            yield driver, name, " ".join(one.requests or ()) or "all", " ".join(one.cdi_ids or ()) or "none"
        if not devices:
            yield driver, "not prepared", "", ""


def _by_node(entry: PodDevices) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node, ids in (entry.device_ids or {}).items():
        yield "none" if node == NO_NODE else str(node), ids or ()


def _nodes(ids: tuple[int, ...] | None) -> str:
    return "?" if ids is None else str(NodeSet.from_ids(ids)) or "none"


def _value(value: object) -> str:
    """As in the file; what counts bytes also in units, for two of them may differ by less."""
    if isinstance(value, int) and abs(value) >= _MIB:
        return f"{size(value)} ({value})"
    return "absent" if value is None else printable(msgspec.json.encode(value).decode())


def _line(out: Console, *parts: Text) -> None:
    out.print(Text.assemble(*parts), soft_wrap=True)
