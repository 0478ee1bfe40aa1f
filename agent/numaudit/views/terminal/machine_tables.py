"""The tables of `numaudit topology` and `config show`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from numaudit.api.document import Setting, Topology
from numaudit.errors import printable
from numaudit.report.words import UNKNOWN, cpu_list, or_unknown, size
from numaudit.topology.tiers import MemorySpeed, TierSettings, in_words
from numaudit.views.terminal.terminal import new_table, print_table


def print_topology(topology: Topology, out: Console) -> None:
    """Nodes with CPUs, memory and huge pages, then the distances, then memory tiers."""
    table = new_table("NODE", ">CPUS", "~CPU LIST", "SOCKETS", ">CORES", ">MEMORY", "~HUGE PAGES (free of total)")
    for node in topology.nodes:
        pages = [f"{size(p.page_size_bytes)}: {or_unknown(p.free)} of {p.total}" for p in node.huge_pages]
        table.add_row(
            str(node.numa_node),
            or_unknown(None if node.cpus is None else len(node.cpus)),
            cpu_list(node.cpus),
            UNKNOWN if node.cpus is None else ",".join(map(str, node.sockets)),
            or_unknown(node.cores),
            size(node.memory_bytes),
            ", ".join(pages),
        )
    print_table(table, out)
    out.print()
    _print_distances(topology, out)
    _print_tiers(topology, out)
    for problem in topology.problems:
        out.print(Text(f"not known: {problem}", "yellow"))


def _print_distances(topology: Topology, out: Console) -> None:
    if not any(node.distances for node in topology.nodes):
        if not topology.problems:
            out.print(Text("the kernel shows no distances between nodes"))
        return
    ids = [node.numa_node for node in topology.nodes]
    distances = new_table("DISTANCE", *(f">{one}" for one in ids))
    for node in topology.nodes:
        distances.add_row(str(node.numa_node), *(or_unknown(node.distances.get(one)) for one in ids))
    print_table(distances, out)


def _print_tiers(topology: Topology, out: Console) -> None:
    """Nothing where the kernel shows no tiers, and one line where there is one."""
    tiers = topology.memory_tiers
    if tiers is not None and len(tiers) > 1:
        out.print()
        table = new_table("NODE", ">MEMORY TIER", ">DEMOTES TO", ">READ LATENCY", ">WRITE", ">READ BANDWIDTH", ">WRITE")
        for node in topology.nodes:
            speed = node.memory_speed
            table.add_row(
                str(node.numa_node),
                or_unknown(node.memory_tier) if node.memory_bytes else "no memory",
                str(node.demotion_targets or "nowhere"),
                *(["unknown"] * 4 if speed is None else _figures(speed)),
            )
        print_table(table, out)
    if tiers is not None:
        out.print(Text(in_words(len(tiers), TierSettings(topology.demotion_enabled, topology.numa_balancing))))


def _figures(speed: MemorySpeed) -> list[str]:
    latencies = (speed.read_latency_nanoseconds, speed.write_latency_nanoseconds)
    widths = (speed.read_bytes_per_second, speed.write_bytes_per_second)
    return [
        *("unknown" if one is None else f"{one} ns" for one in latencies),
        *("unknown" if one is None else f"{size(one)}/s" for one in widths),
    ]


def print_settings(settings: Sequence[Setting], out: Console) -> None:
    """One line for each setting, with where its value came from."""
    table = new_table("SETTING", "~VALUE", "~FROM")
    for setting in settings:
        table.add_row(setting.key, printable(setting.value) or "unset", printable(setting.origin))
    print_table(table, out)
