"""Tables for people. Names from outside are shown with their control characters escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from numaudit.evaluation.report import ContainerReport, NodeBytes, Report
from numaudit.reports.document import Topology
from numaudit.snapshot import Check

_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_UNKNOWN = "?"
_NODE_COLUMNS = 8
_SMALL = 1 << 20
_STATE_STYLE = {"ok": "green", "reduced": "yellow", "missing": "red", "partial": "yellow"}


def console() -> Console:
    """Standard output: colour and line width only for a terminal; a pipe gets whole lines."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 1000)


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
    """Bytes in binary units with three digits at most: 1.5G, 50.1M, 4K, 0; `?` when not known."""
    if value is None:
        return _UNKNOWN
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            amount = value / unit
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
    columns = [f">N{node}" for node in nodes] if len(nodes) <= _NODE_COLUMNS else ["BY NODE"]
    extra = ["KIND", "RUNTIME", "CGROUP"] if wide else []
    types = [">ANON", ">SHMEM", ">HUGETLB"] if wide else []
    table = _table(
        "CONTAINER", "QOS", "MEMS", "CPUS ON", ">JUDGED", *columns, *types, ">FILE", ">REMOTE", ">REMOTE%", *extra
    )
    for one in shown:
        remote_style = "red" if one.remote_bytes else ""
        table.add_row(
            display_name(one),
            one.qos or "",
            _set(one.allowed_memory_nodes),
            _set(one.allowed_cpu_nodes),
            size(one.judged_bytes),
            *_node_cells(one, nodes),
            *([size(_total(one.resident, kind)) for kind in ("anon", "shmem", "hugetlb")] if wide else []),
            size(_total(one.resident, "file")),
            Text(size(one.remote_bytes), remote_style),
            Text(_share(one.remote_bytes, one.judged_bytes), remote_style),
            *([one.kind, one.runtime or "", printable(one.path)] if wide else []),
        )
    return table


def _node_cells(container: ContainerReport, nodes: Sequence[int]) -> list[str]:
    judged = {row.numa_node: _judged(row) for row in container.resident or ()}
    if len(nodes) > _NODE_COLUMNS:
        return [" ".join(f"N{node}:{size(value)}" for node, value in judged.items() if value) or "-"]
    if container.resident is None:
        return [_UNKNOWN] * len(nodes)
    return [size(judged.get(node, 0)) for node in nodes]


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
