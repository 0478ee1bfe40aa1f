"""Tables for people. Names from outside are shown with their control characters escaped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from numaudit.evaluation.alignment import MISALIGNED
from numaudit.evaluation.report import ContainerReport, NodeBytes, Report
from numaudit.reports.document import Topology
from numaudit.snapshot import Check

_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_UNKNOWN = "?"
_NODE_COLUMNS = 8
_SMALL = 1 << 20
_WIDER_THAN_ANY_PATH = 1 << 16
_VERDICT_STYLE = {"aligned": "green", "unknown": "yellow", **dict.fromkeys(MISALIGNED, "red")}
_STATE_STYLE = {"ok": "green", "reduced": "yellow", "missing": "red", "partial": "yellow"}


def console() -> Console:
    """Standard output: colour and line width only for a terminal; a pipe gets whole lines."""
    width = None if sys.stdout.isatty() else _WIDER_THAN_ANY_PATH
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def print_report(report: Report, out: Console, *, wide: bool = False) -> None:
    """The table of containers, the table of nodes, and what is not known."""
    shown = [one for one in report.containers if wide or not _is_small_remainder(one)]
    _print(_container_table(report, shown, wide), out)
    hidden = len(report.containers) - len(shown)
    if hidden:
        out.print(Text(f"{hidden} cgroups that hold less than 1 MiB of their own are left out; -o wide shows them"))
    out.print()
    _print(_node_table(report), out)
    out.print()
    _print_notes(report, shown, out)


def print_matrix(report: Report, out: Console) -> None:
    """Pages given to each container: from the CPU's node (rows) to the page's node (columns)."""
    nodes = [node.numa_node for node in report.nodes]
    for one in report.containers:
        if not one.allocated:
            continue
        given = {(pair.cpu_numa_node, pair.numa_node): pair.bytes for pair in one.allocated}
        unknown = any(page is None for _, page in given)
        out.print()
        out.print(Text(f"given to {display_name(one)}, by CPU's node and page's node", "bold"))
        table = _table("CPU ON", *(f">N{node}" for node in nodes), *([">UNKNOWN"] if unknown else []))
        columns = [*nodes, None] if unknown else [*nodes]
        for cpu in sorted({cpu for cpu, _ in given}):
            table.add_row(f"N{cpu}", *(size(given.get((cpu, page), 0)) for page in columns))
        _print(table, out)


def print_topology(topology: Topology, out: Console) -> None:
    """Nodes with CPUs, memory and huge pages, then the distances."""
    table = _table("NODE", ">CPUS", "CPU LIST", "SOCKETS", ">CORES", ">MEMORY", "HUGE PAGES (free of total)")
    for node in topology.nodes:
        pages = [f"{size(p.page_size_bytes)}: {_or_unknown(p.free)} of {p.total}" for p in node.huge_pages]
        table.add_row(
            str(node.numa_node),
            str(_count(node.cpus)),
            node.cpus or "none",
            ",".join(map(str, node.sockets)),
            _or_unknown(node.cores),
            size(node.memory_bytes),
            ", ".join(pages),
        )
    _print(table, out)
    out.print()
    if not any(node.distances for node in topology.nodes):
        out.print(Text("the firmware gives no distances between nodes"))
        return
    ids = [node.numa_node for node in topology.nodes]
    distances = _table("DISTANCE", *(f">{one}" for one in ids))
    for node in topology.nodes:
        distances.add_row(str(node.numa_node), *(_or_unknown(node.distances.get(one)) for one in ids))
    _print(distances, out)


def print_doctor(checks: Sequence[Check], out: Console) -> None:
    """One line for each check, its hint below it."""
    table = _table("CHECK", "STATE", "DETAIL")
    for check in checks:
        table.add_row(check.name, Text(check.state, _STATE_STYLE[check.state]), printable(check.detail))
        if check.hint is not None:
            table.add_row("", "", Text(f"-> {printable(check.hint)}", "dim"))
    _print(table, out)


def size(value: int | None) -> str:
    """Bytes in binary units, one decimal below 100: 1.5G, 50.1M, 4K, 0; `?` when not known."""
    if value is None:
        return _UNKNOWN
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            amount = round(value / unit, 1)
            return f"{amount:.1f}{letter}" if abs(amount) < 100 and value % unit else f"{amount:.0f}{letter}"
    return str(value)


def printable(text: str) -> str:
    """The text on one line: control characters, line ends and broken UTF-8 as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def display_name(container: ContainerReport) -> str:
    """namespace/pod/container as far as known, else the pod's UID, else the cgroup path."""
    if container.pod_uid is None:
        return printable(container.path)
    pod = f"{container.namespace}/{container.pod}" if container.pod else f"pod {container.pod_uid}"
    if container.kind == "container":
        return printable(f"{pod}/{container.container or (container.container_id or '')[:12]}")
    return printable(f"{pod} ({container.kind})")


def _print(table: RenderableType, out: Console) -> None:
    """Print without the blanks that fill the last column."""
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        out.file.write(line.rstrip() + "\n")


def _container_table(report: Report, shown: Sequence[ContainerReport], wide: bool) -> Table:
    nodes = [node.numa_node for node in report.nodes]
    columns = _container_columns(nodes, wide, any(one.pod_uid for one in shown), _has_cpu_time(report))
    table = _table(*(column.title for column in columns))
    for one in shown:
        table.add_row(*(cell for column in columns for cell in column.cells(one)))
    return table


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the containers' table; `>` in front of its title aligns it right."""

    title: str
    cell: Callable[[ContainerReport], str | Text]

    def cells(self, container: ContainerReport) -> tuple[str | Text]:
        return (self.cell(container),)


def _container_columns(nodes: Sequence[int], wide: bool, kubernetes: bool, cpu_time: bool) -> list[_Column]:
    columns = [_Column("CONTAINER", display_name)]
    if kubernetes:
        columns += [
            _Column("QOS", lambda one: one.qos or ""),
            _Column("PROMISED", _promised),
        ]
    columns += [
        _Column("MEMS", lambda one: _set(one.allowed_memory_nodes)),
        _Column("CPUS ON", lambda one: _set(one.allowed_cpu_nodes)),
        _Column(">JUDGED", lambda one: size(one.judged_bytes)),
        *_node_columns(nodes),
    ]
    if wide:
        columns += [_Column(f">{kind.upper()}", partial(_type_cell, kind)) for kind in ("anon", "shmem", "hugetlb")]
    columns += [
        _Column(">FILE", partial(_type_cell, "file")),
        _Column(">REMOTE", lambda one: _remote(one, size(one.remote_bytes))),
        _Column(">REMOTE%", lambda one: _remote(one, _share(one.remote_bytes, one.judged_bytes))),
    ]
    if cpu_time:
        columns.append(_Column(">EXPECTED", lambda one: _percent(one.expected_remote_ratio)))
    if kubernetes:
        columns.append(_Column("VERDICT", _verdict))
    if wide:
        columns += [
            _Column("HINT OUTCOME", lambda one: one.hint_outcome.outcome if one.hint_outcome else ""),
            _Column("KIND", lambda one: one.kind),
            _Column("RUNTIME", lambda one: one.runtime or ""),
            _Column("CGROUP", lambda one: printable(one.path)),
        ]
    return columns


def _node_columns(nodes: Sequence[int]) -> list[_Column]:
    if len(nodes) > _NODE_COLUMNS:
        return [_Column("BY NODE", _by_node_cell)]
    return [_Column(f">N{node}", partial(_node_cell, node)) for node in nodes]


def _node_cell(node: int, container: ContainerReport) -> str:
    if container.resident is None:
        return _UNKNOWN
    return size(sum(_judged(row) for row in container.resident if row.numa_node == node))


def _by_node_cell(container: ContainerReport) -> str:
    if container.resident is None:
        return _UNKNOWN
    rows = [(row.numa_node, _judged(row)) for row in container.resident]
    return " ".join(f"N{node}:{size(value)}" for node, value in rows if value) or "-"


def _type_cell(kind: str, container: ContainerReport) -> str:
    return size(_total(container.resident, kind))


def _promised(container: ContainerReport) -> str:
    if container.intended is None:
        return ""
    nodes = container.intended.memory_nodes
    return _UNKNOWN if nodes is None else nodes or "-"


def _remote(container: ContainerReport, text: str) -> Text:
    return Text(text, "red" if container.remote_bytes else "")


def _verdict(container: ContainerReport) -> Text:
    if container.verdict is None:
        return Text("")
    name = container.verdict.name
    return Text(name, _VERDICT_STYLE.get(name, ""))


def _has_cpu_time(report: Report) -> bool:
    return any(one.cpu_seconds is not None for one in report.containers)


def _percent(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else f"{100 * ratio:.1f}%"


def _node_table(report: Report) -> Table:
    table = _table("NODE", "CPU LIST", ">TOTAL", ">FREE", ">CONTAINERS", ">UNATTRIBUTED", ">RESIDUAL", ">OF NODE")
    residual = {row.numa_node: row for row in report.residual}
    for node in report.nodes:
        row = residual.get(node.numa_node)
        table.add_row(
            str(node.numa_node),
            node.cpus or "none",
            size(node.total_bytes),
            size(node.free_bytes),
            size(row.container_bytes if row else None),
            size(row.unattributed_bytes if row else None),
            _signed(row.residual_bytes) if row else _UNKNOWN,
            _share(row.residual_bytes, node.total_bytes) if row else _UNKNOWN,
        )
    return table


def _print_notes(report: Report, shown: Iterable[ContainerReport], out: Console) -> None:
    out.print(
        Text(
            "Sizes are binary (M = 2^20). JUDGED = anon + shmem + hugetlb. REMOTE = judged bytes on nodes that have "
            "none of the allowed CPUs.\nRESIDUAL = the node's own count - containers - unattributed (anon, shmem, "
            "file, hugetlb), each read on its own.",
            "dim",
        )
    )
    if _has_cpu_time(report):
        out.print(
            Text(
                "EXPECTED = share of accesses that would be remote if every judged byte were used equally from "
                "wherever the CPUs ran (residence x CPU time).",
                "dim",
            )
        )
    _print_judgements(report, shown, out)
    for unknown in report.unknown:
        out.print(Text(f"not known: {unknown.what}: {printable(unknown.reason)}", "yellow"))
    for reason, names in _unknown_by_reason(shown).items():
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        out.print(Text(f"not known: {printable(reason)} ({some})", "yellow"))
    for source in report.sources:
        if source.state != "ok":
            out.print(Text(f"{source.source}: {source.state}: {printable(source.reason or '')}", "yellow"))
    timings = ", ".join(f"{s.source} {s.seconds * 1000:.0f} ms" for s in report.sources if s.seconds is not None)
    out.print(Text(f"Read in: {timings}", "dim"))


def _print_judgements(report: Report, shown: Iterable[ContainerReport], out: Console) -> None:
    """Why a container is not aligned, what else was found, and which pods were refused."""
    for one in shown:
        if one.verdict is not None and (one.verdict.name in MISALIGNED or one.verdict.causes):
            said = f"{one.verdict.name}: {one.verdict.reason}" if one.verdict.name in MISALIGNED else None
            out.print(Text(f"{display_name(one)}: {printable(said or f'{size(one.remote_bytes)} remote')}"))
            for cause in one.verdict.causes:
                out.print(Text(f"    {cause.cause}: {printable(cause.evidence)}", "dim"))
    for finding in report.findings:
        subject = f"{finding.pod_uid}/{finding.container}: " if finding.pod_uid else ""
        out.print(Text(f"{finding.severity}: {finding.name}: {printable(subject + finding.message)}", "yellow"))
        out.print(Text(f"    {finding.remedy}", "dim"))
    for refused in report.rejections:
        name = printable(f"{refused.namespace}/{refused.pod}")
        out.print(Text(f"refused: {name}: {refused.outcome}: {printable(refused.message or '')}", "yellow"))


def _unknown_by_reason(containers: Iterable[ContainerReport]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in containers:
        for unknown in one.unknown:
            found.setdefault(f"{unknown.what}: {unknown.reason}", []).append(display_name(one))
    return found


def _is_small_remainder(container: ContainerReport) -> bool:
    """A parent group or a pause sandbox that holds next to nothing itself."""
    if container.resident is None or (container.whole and container.kind not in ("sandbox", "pod")):
        return False
    return sum(_judged(row) + (row.file or 0) for row in container.resident) < _SMALL


def _judged(row: NodeBytes) -> int:
    return (row.anon or 0) + (row.shmem or 0) + (row.hugetlb or 0)


def _total(rows: Sequence[NodeBytes] | None, kind: str) -> int | None:
    values = [getattr(row, kind) for row in rows or ()]
    return None if not values or None in values else sum(values)


def _share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return _UNKNOWN
    return "-" if whole == 0 else f"{round(100 * part / whole, 1) + 0:.1f}%"


def _signed(value: int) -> str:
    return f"+{size(value)}" if value > 0 else size(value)


def _set(text: str | None) -> str:
    return _UNKNOWN if text is None else text or "none"


def _or_unknown(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _count(cpus: str) -> int:
    bounds = [part.split("-") for part in cpus.split(",") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in bounds)


def _table(*columns: str) -> Table:
    """A plain table; `>` in front of a name aligns its column right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in columns:
        right = name.startswith(">")
        table.add_column(Text(name.removeprefix(">"), "bold"), justify="right" if right else "left", no_wrap=True)
    return table
