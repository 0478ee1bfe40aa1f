"""Explanation why a pod is admitted or refused, for people: the sentence first, then the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console

from numaudit.api.explanation_document import Candidate, ExplainedMerge, Explanation, Merge
from numaudit.containermanager.memory.headroom import HugePageShortage
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.errors import printable
from numaudit.scenario.make_room import MakeRoom
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import exact, plural, some_of
from numaudit.views.terminal.simulation_tables import change_lines, place_line
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_ABSENT = "-"
_MOST_SETS = 8
_MOST_ROWS = 8
"""Of more sets of nodes than these, those of one size and verdict are one row."""
_OF_SEVERAL = {
    "too-small": "they could not hold it even when empty",
    "in-a-group": "each serves containers together with other nodes",
    "breaks-a-group": "some of their nodes serve containers alone or in another group",
    "not-free": "too little memory is free",
}
"""Meaning of a verdict for several sets of nodes."""


def print_explanations(found: Sequence[Explanation], out: Console) -> None:
    """Each pod of a file; of several, how many would be admitted comes first."""
    if len(found) > 1:
        fit = sum(one.fits for one in found)
        admitted = sum(one.admitted and one.not_known is None for one in found)
        short = f", and {admitted - fit} of them would lack huge pages or stop the kubelet" if fit < admitted else ""
        print_note(f"{admitted} of {len(found)} pods would be admitted, each by itself{short}", out, "bold")
    for number, one in enumerate(found):
        if number or len(found) > 1:
            out.print()
        _print_explanation(one, out)


def _print_explanation(found: Explanation, out: Console) -> None:
    """All of it; `-o json` has every hint."""
    color = "yellow" if found.is_open else "green" if found.fits else "red"
    owner = f" (pod of {found.owner})" if found.owner is not None else ""
    print_note(printable(f"{found.pod}{owner}: {_verdict(found)}"), out, color)
    if found.replicas is not None and found.replicas.asked > 1:
        print_note(f"{found.replicas.fit} of {found.replicas.asked} such pods fit, one after the other.", out)
    for line in _limits(found):
        print_note(printable(line), out, "yellow")
    for short in found.hugepages_short or ():
        print_note(_hugepages_in_words(short), out, "red")
    print_note(printable(found.sentence), out)
    if found.message is not None:
        print_note(printable(f"{found.reason}: {found.message}"), out)
    for name, place in found.containers.items():
        print_note(printable(f"{name}: {place_line(place)}"), out)
    if found.not_known is None and (found.admitting_changes or not found.admitted):
        out.print()
        for line in change_lines(found.admitting_changes, admitted=found.admitted):
            print_note(printable(line), out)
    if found.make_room is not None:
        out.print()
        _print_room(found.make_room, out)
    for one in found.decisions:
        _print_merge(one, out)


def _verdict(found: Explanation) -> str:
    if found.not_known is not None:
        return f"cannot tell: {found.not_known}"
    if found.is_open:
        one, other = ("admitted", "refused") if found.admitted else ("refused", "admitted")
        return f"unknown: {one} if all pods in the checkpoints still exist, else {other}"
    if not found.admitted:
        return f"refused, {found.outcome}"
    if found.start_refusal is not None:
        return f"admitted ({found.outcome}), but then the kubelet will not start again"
    if not found.fits:
        return f"does not fit: the kubelet would admit it ({found.outcome}), but the kernel cannot give its huge pages"
    return f"fits here{' by NUMA rules only' if found.not_added_up else ''}: admitted, {found.outcome}"


def _hugepages_in_words(one: HugePageShortage) -> str:
    nodes = f"node {one.numa_nodes}" if len(one.numa_nodes) == 1 else f"nodes {one.numa_nodes}"
    text = (
        f"{one.type} on {nodes}: it asks for {exact(one.requested_bytes)}, the memory map has "
        f"{exact(one.map_free_bytes)} free, but the kernel has {exact(one.kernel_free_bytes)}"
    )
    if one.left_bytes < one.kernel_free_bytes:
        text += f", of which it can give {exact(one.left_bytes)}: the rest is promised or reserved, and not used yet"
    return f"{text}. Its mmap(2) would fail with ENOMEM, or its first touch with SIGBUS."


def _limits(found: Explanation) -> Iterator[str]:
    """Reasons for which the answer may be another."""
    doubt = found.doubt
    if doubt is not None:
        pods = plural(len(doubt.pods), "pod")
        there = "; ".join(f"{name}: {place_line(place)}" for name, place in doubt.elsewhere.items())
        same = "" if doubt.decides else " The answer is the same without."
        same = f" It is admitted either way; without them {there}." if there else same
        yield f"{pods} in the checkpoints may be gone, and the kubelet forgets those: {doubt.reason}.{same}"
    if found.not_checked:
        yield f"Not looked at: {', '.join(found.not_checked)}."
    if found.not_added_up and found.admitted:
        yield f"The requests of all pods of the node are not added up, so they may refuse it: {found.not_added_up}."


def _print_room(room: MakeRoom, out: Console) -> None:
    print_note(_answer(room), out, "bold")
    for pod in room.leavers or ():
        command = pod.command or (
            f"Move the manifest of static pod {pod.namespace}/{pod.name} away; kubectl cannot delete it."
        )
        print_note(printable(f"  {command}"), out)
        again = "would be admitted here again" if pod.returns else "would not be admitted here again"
        print_note(printable(f"    It frees {pod.holds}. Afterwards the pod {again}."), out, "dim")
    if room.leavers:
        print_note(
            "Nothing was deleted. A controller replaces its pod at once; the kubelet admits the pod that comes first.",
            out,
            "dim",
        )
    if room.unnamed:
        print_note(f"Left out: {room.unnamed} of the pods here, whose names are unknown.", out, "yellow")


def _answer(room: MakeRoom) -> str:
    tried = f"{room.tried:,} {'set' if room.tried == 1 else 'sets'} tried"
    if room.leavers is None:
        if room.is_exact and room.doubtful:
            return f"Making room: unknown, because pods in the checkpoints may be gone ({tried})."
        if room.is_exact and room.unnamed:
            return f"Making room: no set of pods with known names would be enough ({tried})."
        if room.is_exact:
            return f"Making room: no deletion of pods would let it in ({tried})."
        most = plural(room.ruled_out, "pod")
        return (
            f"Making room: no set of up to {most} would be enough, nor all pods; larger sets were not tried ({tried})."
        )
    if not room.leavers:
        return "Making room: no pod has to be deleted."
    count = plural(len(room.leavers), "pod")
    if room.is_exact:
        return f"Making room: deleting {count} would let it in, and no smaller set would ({tried})."
    return (
        f"Making room: deleting {count} would let it in, and no set of up to {room.ruled_out}; not all sets in between "
        f"were tried ({tried})."
    )


def _print_merge(one: ExplainedMerge, out: Console) -> None:
    out.print()
    print_note(printable(f"container {one.container}" if one.container else "the whole pod"), out, "bold")
    asked = {
        (answer.provider, resource): hints
        for answer in one.providers
        for resource, hints in (answer.hints or {}).items()
    }
    if one.candidates or any(asked.values()):
        _print_candidates(one, asked, out)
    for answer in one.providers:
        if not answer.hints:
            print_note(f"{answer.provider}: no preference", out)
        for resource, hints in (answer.hints or {}).items():
            if not hints:
                print_note(printable(f"{resource}: {'no preference' if hints is None else 'no node fits'}"), out)
    _print_steps(one.merge, out)


def _print_candidates(
    one: ExplainedMerge, asked: dict[tuple[str, str], Sequence[TopologyHint] | None], out: Console
) -> None:
    """A row for each set of nodes, or for those of a kind: the Memory Manager's verdict, and the others' hints."""
    others = {resource: hints for (provider, resource), hints in asked.items() if provider != "memory" and hints}
    sets = [tuple(each.nodes) for each in one.candidates] or sorted(
        {tuple(hint.affinity or ()) for hints in others.values() for hint in hints}, key=lambda each: (len(each), each)
    )
    memory = {tuple(each.nodes): each for each in one.candidates}
    by_set = {name: {tuple(hint.affinity or ()): hint for hint in hints} for name, hints in others.items()}
    rows: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    for each in sets:
        hinted = [_hint_in_words(by_set[name].get(each)) for name in others]
        kind = [] if each not in memory else [memory[each].verdict, str(memory[each].preferred)]
        alone = [] if len(sets) <= _MOST_ROWS or len(each) == 1 else [str(len(each))]
        rows.setdefault((*hinted, *kind, *(alone or each)), []).append(each)
    counts = Counter(map(len, sets))
    table = new_table("NODES", *(printable(name).upper() for name in others), *(["~MEMORY"] if memory else []))
    for key, alike in rows.items():
        said = [_memory_in_words(memory[alike[0]], len(alike))] if memory else []
        table.add_row(_sets_of_a_row(alike, counts[len(alike[0])]), *key[: len(others)], *said)
    print_table(table, out)


def _sets_of_a_row(alike: Sequence[tuple[int, ...]], of_size: int) -> str:
    """0-1; all 28 pairs; 24 of 28 pairs"""
    if len(alike) == 1:
        return str(NodeSet.from_ids(alike[0]))
    size = "pairs" if len(alike[0]) == 2 else f"sets of {len(alike[0])}"
    return f"all {of_size} {size}" if len(alike) == of_size else f"{len(alike)} of {of_size} {size}"


def _memory_in_words(one: Candidate, sets: int) -> str:
    return one.explanation if sets == 1 or one.verdict == "kept" else f"{one.verdict}: {_OF_SEVERAL[one.verdict]}"


def _hint_in_words(hint: TopologyHint | None) -> str:
    if hint is None:
        return _ABSENT
    return "preferred" if hint.preferred else "possible"


def _print_steps(merge: Merge, out: Console) -> None:
    if any(one.kept < one.hints for one in merge.offers):
        kept = ", ".join(f"{one.resource or one.provider} {one.kept} of {one.hints}" for one in merge.offers)
        print_note(printable(f"The policy {merge.policy} keeps preferred hints of one node: {kept}."), out)
    if merge.agreed:
        print_note(f"All providers prefer {_sets(merge.agreed)}.", out)
    else:
        empty = [printable(one.resource or one.provider) for one in merge.offers if not one.kept]
        print_note(
            f"No node is left for {' or '.join(empty)}." if empty else "The providers prefer different nodes.", out
        )
        if merge.reachable:
            goal = f" Nearest to {plural(merge.goal, 'node')}: {_sets(merge.finalists)}." if merge.goal else ""
            print_note(f"Combinations of hints leave {_sets(merge.reachable)}.{goal}", out)
    nodes = "any" if merge.hint.affinity is None else str(merge.hint.affinity)
    verdict = "accepts" if merge.admitted else "refuses"
    preferred = "preferred" if merge.hint.preferred else "not preferred"
    print_note(f"Merged hint: {nodes}, {preferred}; the policy {merge.policy} {verdict} it.", out)
    if merge.estimated_seconds is not None:
        print_note(
            f"Warning: a kubelet tries {merge.combinations:,} combinations of these hints, which takes some "
            f"{merge.estimated_seconds:.0f} s in which it admits nothing else (kubernetes#137700).",
            out,
            "yellow",
        )
    else:
        combinations = "combination" if merge.combinations == 1 else "combinations"
        print_note(f"The kubelet tries {merge.combinations:,} {combinations} of hints.", out)


def _sets(sets: Sequence[Sequence[int]]) -> str:
    return some_of([str(NodeSet.from_ids(one)) for one in sets], _MOST_SETS, "; ")
