"""What would be: a played scenario, step by step, and what a restart or reboot does to the pods (`forecast`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from numaudit.api.simulation_document import ContainerPlace, RestartedPod, SimulatedStep
from numaudit.api.simulation_document import Simulation as Document
from numaudit.checkpoints.start.findings import MEANINGS
from numaudit.containermanager.memory.state import MachineState
from numaudit.errors import printable
from numaudit.memorymanager.forecast import Fate, Forecast, PodForecast
from numaudit.report.words import size
from numaudit.scenario.admitting_changes import AdmittingChange
from numaudit.scenario.simulation import AdmissionOrders, Played, ScenarioRun
from numaudit.scenario.words import any_of
from numaudit.topology.nodeset import CpuSet, IdSet, NodeSet
from numaudit.topology.quantity import plural
from numaudit.views.terminal.terminal import TableRow, new_table, print_note, print_rows, print_table

_FATE_STYLE = {"refused": "red", "elsewhere": "yellow", "unknown": "yellow", "kept": "green"}


def print_forecast(found: Forecast, out: Console, *, wide: bool = False) -> None:
    """The answer, why, and the pods that hold or held something or are refused, those that lose most first.

    `wide`: with a row for each pod that is kept, which are one line otherwise.
    """
    for line in _answer(found):
        _line(out, line)
    for obstacle in found.obstacles:
        _line(out, printable(f"  {obstacle.file}: {obstacle.name}: {obstacle.message}"))
    for name in dict.fromkeys(one.name for one in found.obstacles):
        _line(out, f"    -> {MEANINGS[name].remedy}")
    shown = [one for one in found.pods if one.fate == "refused" or one.nodes_then or one.cpus_then]
    listed = [one for one in shown if wide or one.fate != "kept"]
    rows: list[TableRow] = [
        (
            printable(f"{one.namespace}/{one.pod}"),
            Text(one.fate, _FATE_STYLE[one.fate]),
            *(_set(ids) for ids in (one.nodes_now, one.nodes_then, one.cpus_now, one.cpus_then)),
            _reason(one),
        )
        for one in sorted(listed, key=lambda one: list(_FATE_STYLE).index(one.fate))
    ]
    if rows:
        print_rows(("POD", "FATE", "MEMORY NOW", "THEN", "CPUS NOW", "THEN", "~WHY"), rows, out)
    if folded := len(shown) - len(listed):
        have = "it has" if folded == 1 else "they have"
        _line(out, f"kept: {plural(folded, 'pod')}, on the nodes and CPUs that {have} now; -o wide lists them")


def _answer(found: Forecast) -> Iterator[str]:
    what = "a reboot of the node" if found.reboot else "a restart of the kubelet"
    fate = _fate_of_pods(found)
    match found.starts:
        case "yes":
            yield f"{what.capitalize()} would {fate}."
        case "no":
            words = found.refusal or "its message is not known"
            after = "after a reboot of the node" if found.reboot else "again"
            yield f"The kubelet would not start {after}: {printable(words)}"
            if found.pods_problem is not None:
                yield f"The fate of the pods is not known: {printable(found.pods_problem)}"
            else:
                yield f"Once its state files are removed, a start would {fate}."
        case "at risk":
            yield f"The kubelet may not start after {what}. If it starts, that would {fate}."
        case "once":
            yield f"{what.capitalize()} would {fate}. The kubelet starts once, but not again after that."
        case "unknown":
            yield f"It is not known whether the kubelet starts after {what}. If it starts, that would {fate}."


def _fate_of_pods(found: Forecast) -> str:
    """The end of a sentence."""
    counts = Counter(one.fate for one in found.pods)
    pods = plural(len(found.pods), "Guaranteed pod")
    if counts["kept"] == len(found.pods):
        return f"change nothing for its {pods}"
    explained = any(one.fate == "unknown" and one.reason is None and one.message for one in found.pods)
    verbs: dict[Fate, str] = {"refused": "refuse", "elsewhere": "move", "kept": "keep"}
    fates = [f"{verb} {counts[fate]}" for fate, verb in verbs.items() if counts[fate]]
    if not fates:
        return f"have an unknown effect on its {pods}{'' if explained else ', whose present nodes are not known'}"
    *first, last = fates
    said = f"{', '.join(first)} and {last}" if first else last
    what = "the fate" if explained else "the present nodes"
    unknown = f"; {what} of {counts['unknown']} {'is' if explained else 'are'} not known" if counts["unknown"] else ""
    return f"{said} of its {pods}{unknown}"


def _set(ids: IdSet | None) -> str:
    return "-" if ids is None else str(ids)


def _reason(one: PodForecast) -> str:
    return printable(": ".join(text for text in (one.reason, one.message) if text is not None))


def _line(out: Console, text: str) -> None:
    out.print(Text(text), soft_wrap=True)


_STYLE = {True: "green", False: "red", None: ""}


def print_simulation(played: ScenarioRun, document: Document, out: Console) -> None:
    """The number of admitted pods, then every step with the map after it; `-o json` has the bytes."""
    asked = [step for step in document.steps if step.action == "admit"]
    admitted = sum(step.admitted is True for step in asked)
    print_note(f"{admitted} of {plural(len(asked), 'pod')} admitted", out, "bold")
    out.print()
    _print_map(played.scenario.state.memory.state.machine, "at the beginning", out)
    for one, step in zip(played.steps, document.steps, strict=True):
        out.print()
        print_note(f"{step.step}. {printable(_title(step))}", out, _STYLE[step.admitted])
        for line in _lines(step):
            print_note(f"   {printable(line)}", out)
        _print_map(one.after.memory.state.machine, f"after step {step.step}", out, _changed(one))
    if document.orders is not None:
        _print_orders(document.orders, out)


def _changed(one: Played) -> bool:
    return one.before.memory.state.machine != one.after.memory.state.machine


def _title(step: SimulatedStep) -> str:
    subject = " ".join(filter(None, [step.action, step.pod, step.container]))
    if step.admitted is None and step.message is not None:
        return f"{subject}: cannot tell"
    if step.action == "restart":
        return f"{subject}: " + ("the kubelet does not start" if step.reason else "the kubelet starts")
    if step.admitted is None:
        return subject
    return f"{subject}: " + (f"admitted, {step.outcome}" if step.admitted else f"refused, {step.outcome}")


def _lines(step: SimulatedStep) -> Iterator[str]:
    if step.message is not None:
        yield step.message if step.reason is None else f"{step.reason}: {step.message}"
    yield from _why(step)
    for name, place in step.containers.items():
        yield f"{name}: {place_line(place)}"
    for pod in step.pods:
        yield f"{pod.pod}: {_fate(pod)}"
        yield from (f"   {line}" for line in _why(pod))
    if step.note is not None:
        yield step.note


def _why(refused: SimulatedStep | RestartedPod) -> Iterator[str]:
    if refused.sentence is not None:
        yield refused.sentence
        yield from change_lines(refused.admitting_changes, admitted=bool(refused.admitted))


_MOST_DELETIONS = 3


def change_lines(ways: Sequence[AdmittingChange], *, admitted: bool) -> Iterator[str]:
    """Changes that would let a refused pod in, or align one that was admitted; of many deletions the first ones."""
    if not ways:
        yield f"No change that was tried would {'align it' if admitted else 'let it in'}."
    then = "would align it" if admitted else "would let it in"
    deletions = [way for way in ways if way.kind == "remove-pod"]
    more = deletions[_MOST_DELETIONS:] if len(deletions) > _MOST_DELETIONS + 1 else []
    for way in ways:
        if way in more:
            if way is more[0]:
                yield f"{len(more)} more deletions {then}; -o json lists them."
            continue
        where = "" if way.nodes is None else f", with its memory on {way.nodes.in_words}"
        yield f"{way.change} {then}{where}."


def place_line(place: ContainerPlace) -> str:
    sizes = ", ".join(f"{size(one['size'])} of {one['type']}" for one in place.blocks)
    on = f"on {place.cpuset_mems.in_words}"
    if not place.cpuset_mems:
        parts = ["no memory of its own"]
    elif not any(one["size"] for one in place.blocks):
        parts = [f"memory {on}, counted with the container that takes it over"]
    else:
        parts = [f"{sizes} {on}"]
    if place.cpus:
        parts.append(CpuSet.parse(place.cpus).in_words)
    parts += [f"{resource} {', '.join(ids)}" for resource, ids in place.devices.items()]
    parts += [f"{name} {any_of(one.count, one.among)}" for name, one in place.device_choices.items()]
    if place.hint is not None and place.hint.affinity is not None:
        preferred = "preferred" if place.hint.preferred else "not preferred"
        parts.append(f"hint {place.hint.affinity} ({preferred})")
    return "; ".join(parts)


def _fate(pod: RestartedPod) -> str:
    if pod.admitted is None:
        return f"cannot tell: {pod.message}"
    if not pod.admitted:
        return f"{pod.fate}: {pod.reason}: {pod.message}"
    held = ", ".join(f"{name} {place_line(place)}" for name, place in pod.containers.items())
    return f"{pod.fate} ({held})"


def _print_map(machine: MachineState, when: str, out: Console, changed: bool = True) -> None:
    if not machine:
        print_note("   no memory map: memoryManagerPolicy is None", out, "dim")
        return
    if not changed:
        print_note("   the memory map is unchanged", out, "dim")
        return
    print_note(f"   memory map {when}", out, "dim")
    table = new_table("   NODE", "TYPE", ">TOTAL", ">SYSTEM", ">ALLOCATABLE", ">PROMISED", ">FREE", "GROUP")
    for id_, node in machine.items():
        group = str(NodeSet.from_ids(node.cells or ()))
        for row, (resource, one) in enumerate(node.memory_map.items()):
            if row and not one.total:
                continue
            amounts = (one.total, one.system_reserved, one.allocatable, one.reserved, one.free)
            table.add_row(Text(f"   {id_}"), resource, *(size(amount) for amount in amounts), group)
    print_table(table, out)


def _print_orders(orders: AdmissionOrders, out: Console) -> None:
    out.print()
    gave_up = "" if orders.complete else f"; gave up after {orders.tried} admissions, there may be more"
    print_note(f"orders in which all pods are admitted: {len(orders.orders) or 'none'}{gave_up}", out, "bold")
    for order in orders.orders:
        print_note(f"   {printable(', '.join(order))}", out)
