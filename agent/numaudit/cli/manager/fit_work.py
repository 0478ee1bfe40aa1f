"""Would a node admit a pod that is not here yet? The work of `numaudit fit`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import click
from msgspec import Struct
from msgspec.structs import replace

from numaudit.api import explanation_document
from numaudit.api.explanation_document import Explanation, ExplanationList, Replicas
from numaudit.cli import json_output, options
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INCONCLUSIVE
from numaudit.cli.manager.scenario_files import ScenarioFiles
from numaudit.config import yaml_document
from numaudit.containermanager.pod.names import PodName, can_be_typed, full_name
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, Pod
from numaudit.containermanager.predicates import EPHEMERAL_STORAGE, node_requests
from numaudit.containermanager.versions import POD_LEVEL_GATE, parse_version, read_feature_gates
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import DEVICES_ELSEWHERE, DEVICES_WITHOUT_PLACE, state_of
from numaudit.kubelet.questions.pods_here import PodsHere
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.admission import Admission, NodeState, admit
from numaudit.memorymanager.huge_pages import HugePageRoom, HugePageShortage, shortages
from numaudit.memorymanager.manager import start_refusal
from numaudit.scenario.document import Document
from numaudit.scenario.explanation import admit_without, explain
from numaudit.scenario.files import Files
from numaudit.scenario.holdings import removable_pods
from numaudit.scenario.make_room import MakeRoom, make_room
from numaudit.scenario.manifests import Manifest, read_manifests, unknown_devices
from numaudit.scenario.reading import read_scenario, read_setup, read_state_files
from numaudit.scenario.simulation import simulate
from numaudit.scenario.values import Setup
from numaudit.topology.quantity import ZERO

_NO_ROOM = "--make-room was left out: a feature gate that is not modelled here decides about the pod, too"
MOST_PODS = 1000
"""Replicas that are tried on one node; a kubelet takes 110 unless its maxPods says more."""
_OTHER_FILES = "the files that were given may be of another node"


class _Node(Struct, frozen=True):
    setup: Setup
    state: NodeState
    pods: PodsHere
    notices: tuple[str, ...] = ()
    unplaced: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    """See `NodeHere`."""
    doubtful: tuple[str, ...] = ()
    """UIDs of the pods in the checkpoints of which nobody here knows whether they live."""
    is_this_host: bool = False
    """False: a file says something else than what was read here, so the kernel's free pages may be another node's."""
    huge_pages: Mapping[str, HugePageRoom] | None = None
    """By resource: what the kernel has; None = not known, or no pod asks for any."""

    @classmethod
    def of_files(cls, setup: Setup, files: Files, pods: PodsHere, storage: int | None = None) -> Self:
        """A node whose pods are known by state files at least."""
        state = state_of(setup, files, pods, storage)
        return cls(setup, state, pods, doubtful=tuple(uid for uid in state.pods if pods.is_doubtful(uid)))


def run(
    *,
    pod: Path,
    output: str,
    scenario: Path | None,
    machine: Path | None,
    configuration: Path | None,
    memory_state: Path | None,
    cpu_state: Path | None,
    device_state: Path | None,
    kubernetes_version: str | None,
    feature_gates: str | None,
    with_room: bool,
    count: int | None,
    fail_on_reject: bool,
    root: Path | None,
) -> None:
    """Print what the options ask for. Raises InputError for options that do not fit, and Unavailable."""
    given = {"memory": memory_state, "cpu": cpu_state, "devices": device_state}
    gates = read_feature_gates(feature_gates) if feature_gates else {}
    host: Host | None = None
    if scenario is not None:
        others = [machine, configuration, *given.values(), kubernetes_version, feature_gates, root]
        if any(one is not None for one in others):
            raise InputError("--scenario describes the whole node: give only -f beside it")
        node = _end_of(scenario)
    else:
        changes = {"machine": machine, "kubelet": configuration}
        head = {name: str(path) for name, path in changes.items() if path is not None}
        asked = _Asked(
            head, {name: path for name, path in given.items() if path is not None}, kubernetes_version, gates
        )
        host = None if len(head) == len(changes) else options.host(root)
        node = _described(asked) if host is None else _here(host, asked)
    manifests = read_manifests(yaml_document.read_all(pod, "the pod"))
    if node.is_this_host and host is not None and any(_wants_huge_pages(one.pod) for one in manifests):
        node = replace(node, huge_pages=_huge_pages(host))
    found = [_explained(node, one, count, with_room=with_room) for one in manifests]
    for notice in dict.fromkeys(notice for one in found for notice in one.notices):
        click.echo(f"numaudit: {notice}", err=True)
    _print(found, output, host)
    if fail_on_reject and any(one.is_open for one in found):
        click.get_current_context().exit(EXIT_INCONCLUSIVE)
    if fail_on_reject and not all(one.fits and (count is None or one.replicas_fit) for one in found):
        click.get_current_context().exit(EXIT_FINDINGS)


def _explained(node: _Node, manifest: Manifest, count: int | None, *, with_room: bool) -> Explanation:
    """The pod on the node as it is: those beside it in its file are not there."""
    pod = manifest.pod
    found = explain(node.setup, node.state, pod)
    asked = node_requests(pod)
    unplaced = [DEVICES_WITHOUT_PLACE] if (node.unplaced - node.elsewhere) & asked.keys() else []
    if elsewhere := sorted(node.elsewhere & asked.keys()):
        unplaced.append(DEVICES_ELSEWHERE.format(", ".join(elsewhere)))
    ignored = [
        f"no device plugin has registered {name} there, so it does not count"
        for name in unknown_devices(pod, node.setup.devices)
    ]
    is_open = found.admission.problem is not None or (
        node.setup.kubelet.features.verifies_huge_pages and _wants_huge_pages(pod)
    )
    roomless = [_NO_ROOM] if with_room and is_open else []
    return explanation_document.explanation(
        found,
        node.setup.kubelet.topology.policy,
        (*node.setup.started[1], *node.notices, *unplaced, *ignored, *roomless),
        _room(node, pod) if with_room and not is_open else None,
        _doubt(node, found.admission),
        _not_added_up(node, pod),
        manifest.owner,
        _hugepages_short(node, found.admission),
        _replicas(node, found.admission, count or manifest.replicas or 1),
    )


def _replicas(node: _Node, first: Admission, asked: int) -> Replicas:
    """One after the other, until one does not fit. Raises as `admit` does."""
    kubelet, admission, uids = node.setup.kubelet, first, set[str]()
    for number in range(min(asked, MOST_PODS)):
        if number:
            admission = admit(kubelet, admission.state, replace(first.pod, uid=f"{first.pod.uid} {number}"))
        uids.add(admission.pod.uid)
        is_taken = admission.admitted and admission.problem is None
        if not is_taken or _lacking(node, admission, uids) or start_refusal(kubelet, admission.state) is not None:
            return Replicas(asked, number)
    return Replicas(asked, min(asked, MOST_PODS))


def _wants_huge_pages(pod: Pod) -> bool:
    return any(name.startswith(HUGEPAGES_PREFIX) for name in node_requests(pod))


def _huge_pages(host: Host) -> Mapping[str, HugePageRoom]:
    """Huge pages that the kernel has free and earlier promises have not used, by resource."""
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer
    from numaudit.evaluation.huge_pages import huge_pages_of

    return {one.type: one.room for one in huge_pages_of(Engine(Observer.of(host)).tick().snapshot)}


def _hugepages_short(node: _Node, admission: Admission) -> tuple[HugePageShortage, ...] | None:
    return _lacking(node, admission, {admission.pod.uid}) if admission.admitted else None


def _lacking(node: _Node, admission: Admission, uids: Collection[str]) -> tuple[HugePageShortage, ...] | None:
    """Huge pages that the kernel lacks for all these pods together; None = not known."""
    if node.huge_pages is None:
        return None
    before, after = node.state.memory.state, admission.state.memory.state
    return shortages(before.machine, after, frozenset(uids), node.huge_pages)


def _print(found: list[Explanation], output: str, host: Host | None) -> None:
    if output == "json":
        kind, value = ("Explanation", found[0]) if len(found) == 1 else ("ExplanationList", ExplanationList(found))
        if host is None:
            json_output.of_no_host(kind, value)
        else:
            json_output.of_host(kind, value, host)
        return
    from numaudit.views.terminal import explanation_tables, terminal

    if host is None:
        explanation_tables.print_explanations(found, terminal.console())
        return
    from numaudit.cli import table

    with table.of_host(host) as out:
        explanation_tables.print_explanations(found, out)


def _doubt(node: _Node, admission: Admission) -> explanation_document.Doubt | None:
    doubtful = node.doubtful
    if not doubtful:
        return None
    names = [full_name(one.namespace, one.pod, uid, None) for uid, one in _named(node, doubtful)]
    other = admit_without(node.setup.kubelet, node.state, admission, doubtful)
    return explanation_document.doubt(names, node.pods.problem or "", admission, other)


def _named(node: _Node, uids: Iterable[str]) -> Iterator[tuple[str, PodName]]:
    return ((uid, node.pods.names.get(uid, PodName(None, None, None))) for uid in uids)


def _not_added_up(node: _Node, manifest: Pod) -> str | None:
    """The reason why what the pods of the node ask for together was not counted, or not all of it; None = it was."""
    if node.state.capacity is None:
        return node.pods.problem
    if manifest.is_critical:
        return "the pod is critical: a kubelet that lacks room for it evicts others"
    asks_for_storage = node_requests(manifest).get(EPHEMERAL_STORAGE, ZERO).nano > 0
    if asks_for_storage and EPHEMERAL_STORAGE not in node.state.capacity.allocatable:
        return "how much ephemeral storage the node has is not known"
    return None


def _room(node: _Node, manifest: Pod) -> MakeRoom:
    """Only pods that kubectl can name are to leave; one of no known name has its UID for one."""
    pods = [node.state.pods[uid] for uid in removable_pods(node.setup.kubelet, node.state, manifest)]
    unnamed = [
        one.uid for one in pods if one.name == one.uid or not (can_be_typed(one.name) and can_be_typed(one.namespace))
    ]
    return make_room(node.setup.kubelet, node.state, manifest, unnamed=unnamed, doubtful=len(node.doubtful))


class _Asked(Struct, frozen=True):
    """Description of the node by the command line."""

    head: dict[str, str]
    """`machine` and `kubelet` -> file."""
    state: dict[str, Path]
    version: str | None
    gates: dict[str, bool]

    def setup(self, before: Setup | None) -> Setup:
        value = {**self.head, "kubernetesVersion": self.version, "featureGates": self.gates or None}
        return read_setup(Document("the command line", value), _open, before)

    def files(self) -> Files:
        if not self.state:
            return Files()
        value = {name: str(path) for name, path in self.state.items()}
        return read_state_files(Document("the command line", value), _open)


def _open(name: str, what: str) -> list[Document]:
    return yaml_document.read_file(Path(name), what)


def _end_of(scenario: Path) -> _Node:
    played = simulate(read_scenario(yaml_document.read(scenario, "the scenario"), ScenarioFiles(scenario).open))
    setup = played.steps[-1].setup if played.steps else played.scenario.setup
    return _Node(setup, played.state, PodsHere(problem="a scenario does not say what else is on the node"))


def _described(asked: _Asked) -> _Node:
    setup = asked.setup(None)
    pods = PodsHere(problem="files do not say what else is on the node")
    return _Node.of_files(setup, asked.files(), pods)


def _here(host: Host, asked: _Asked) -> _Node:
    """This host, but for what files say. A captured machine or another configuration may not fit its state files."""
    version = None if asked.version is None else parse_version(asked.version)
    try:
        here = node_on(host, AskedKubelet(version, asked.gates.get(POD_LEVEL_GATE)))
    except Unavailable as reason:
        raise Unavailable(
            f"{reason}; run as root, or name one with --kubelet-config FILE, or a whole node with --scenario FILE"
        ) from None
    try:
        setup = asked.setup(here.setup) if asked.head or asked.gates or asked.version else here.setup
        files = asked.files() if asked.state or "machine" in asked.head else here.files
        pods = here.pods if files is here.files else replace(here.pods, active=(), problem=_OTHER_FILES)
        found = _Node.of_files(setup, files, pods, here.storage)
        own = "machine" not in asked.head and files is here.files
        return replace(found, notices=here.notices, unplaced=here.unplaced, elsewhere=here.elsewhere, is_this_host=own)
    except InputError as error:
        if asked.head or asked.state:
            raise
        raise Unavailable(f"{error}; `numaudit state verify` says more") from None
