"""Would a node admit a pod that is not here yet? The work of `numaudit fit`.

The node is this host, a captured one, the end of a scenario, or what a kubelet's files say.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import click
from msgspec import Struct
from msgspec.structs import replace

from numaudit.api import explanation_document
from numaudit.api.explanation_document import Explanation, ExplanationList, Replicas
from numaudit.cli import EXIT_FINDINGS, EXIT_INCONCLUSIVE, options, printing
from numaudit.config import yaml_document
from numaudit.config.yaml_document import ScenarioFiles
from numaudit.containermanager.memory.headroom import HugePageRoom, HugePageShortage, shortages
from numaudit.containermanager.plain import Document
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, Pod, PodName, can_be_typed, full_name
from numaudit.containermanager.predicates import EPHEMERAL_STORAGE, node_requests
from numaudit.containermanager.versions import parse_version, read_feature_gates
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import DEVICES_ELSEWHERE, DEVICES_WITHOUT_PLACE, restored_node
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.admission import Admission, admit
from numaudit.memorymanager.manager import start_refusal
from numaudit.scenario.explanation import admit_without, explain
from numaudit.scenario.files import Files
from numaudit.scenario.holdings import removable_pods
from numaudit.scenario.make_room import MakeRoom, make_room
from numaudit.scenario.manifests import Manifest, read_manifests, unknown_devices
from numaudit.scenario.reading import read_scenario, read_setup, read_state_files
from numaudit.scenario.simulation import simulate
from numaudit.scenario.values import Node, PodsHere
from numaudit.topology.quantity import ZERO

_SCENARIOS = (".yaml", ".yml", ".json")
_MACHINE = ("machine.json", "machine.yaml")
_CONFIGURATION = "config.yaml"
_STATE = {
    "memory": ("memory_manager_state",),
    "cpu": ("cpu_manager_state",),
    "devices": ("kubelet_internal_checkpoint", "device-plugins/kubelet_internal_checkpoint"),
}
"""Manager -> name of its file below /var/lib/kubelet, or in a copy."""
_OF_A_KUBELET = (_CONFIGURATION, *(name for names in _STATE.values() for name in names))


def node_of(
    given: Path | None, root: Path | None, version: str | None, gates: dict[str, bool]
) -> tuple[Node, Host | None]:
    """The node that the options name, and the host that it was read from; None = files describe it.

    Raises InputError for options and files that do not fit, and Unavailable.
    """
    if given is not None and root is not None:
        raise InputError("--node and --root both name the node: leave out one")
    if given is None:
        host = options.host(root)
        return _of_host(host, version, gates), host
    if given.is_file() and given.suffix in _SCENARIOS:
        if version is not None or gates:
            raise InputError("a scenario describes the whole node: leave out --kubernetes-version and --feature-gates")
        return _end_of(given), None
    if any((given / name).exists() for name in (*_MACHINE, *_OF_A_KUBELET)):
        return _described(given, version, gates), None
    try:
        host = options.host(given)
    except InputError as error:
        raise InputError(
            f"{str(error).replace('--root', '--node')}; or give a scenario (.yaml or .json), or a folder with "
            f"{_MACHINE[0]} and a kubelet's {_CONFIGURATION} and state files"
        ) from None
    return _of_host(host, version, gates), host


def _open(name: str, what: str) -> list[Document]:
    return yaml_document.read_file(Path(name), what)


def _end_of(scenario: Path) -> Node:
    played = simulate(read_scenario(yaml_document.read(scenario, "the scenario"), ScenarioFiles(scenario).open))
    setup = played.steps[-1].setup if played.steps else played.scenario.setup
    names = {uid: PodName(pod.namespace, pod.name, False) for uid, pod in played.state.pods.items()}
    return Node(setup, played.state, PodsHere(names, problem="a scenario does not say what else is on the node"))


def _described(folder: Path, version: str | None, gates: dict[str, bool]) -> Node:
    """By the machine and a copy of the kubelet's files; without a state file its manager holds nothing."""
    machine = next((folder / name for name in _MACHINE if (folder / name).exists()), None)
    if machine is None:
        raise InputError(
            f"--node {folder}: has a kubelet's files, but no {_MACHINE[0]}; write it on that node: `numaudit "
            f"topology -o json > {_MACHINE[0]}`"
        )
    configuration = folder / _CONFIGURATION
    if not configuration.exists():
        raise InputError(f"--node {folder}: has no {_CONFIGURATION}; copy the kubelet's configuration file there")
    described = {"machine": str(machine), "kubelet": str(configuration), "kubernetesVersion": version}
    setup = read_setup(Document("the command line", {**described, "featureGates": gates or None}), _open)
    found = {
        manager: next((str(folder / name) for name in names if (folder / name).exists()), None)
        for manager, names in _STATE.items()
    }
    state = {manager: name for manager, name in found.items() if name is not None}
    files = read_state_files(Document("the command line", state), _open) if state else Files()
    return restored_node(setup, files, PodsHere(problem="files do not say what else is on the node"))


def _of_host(host: Host, version: str | None, gates: dict[str, bool]) -> Node:
    """This host or a captured one, whose kubelet may be asked about as one of another version or with other gates."""
    try:
        return node_on(host, AskedKubelet(None if version is None else parse_version(version), gates))
    except Unavailable as reason:
        as_root = ", as root," if host.is_live and os.geteuid() else ""
        raise Unavailable(f"{reason}; run it on a node{as_root} or describe one with --node") from None
    except InputError as error:
        raise Unavailable(f"{error}; `numaudit state verify` says more") from None


_NO_ROOM = "--make-room was left out: a feature gate that is not modelled here decides about the pod, too"
MOST_PODS = 1000
"""Replicas that are tried on one node; a kubelet takes 110 unless its maxPods says more."""


class FitOptions(Struct, frozen=True, kw_only=True):
    """Options of `numaudit fit`, by the names that click gives them."""

    given: Path | None
    """By its place on the command line."""
    pod: Path | None
    """By its option, as for kubectl."""
    output: str
    node: Path | None
    kubernetes_version: str | None
    feature_gates: str | None
    with_room: bool
    count: int | None
    fail_on_reject: bool
    root: Path | None

    @property
    def file(self) -> Path:
        """The one file with pods. Raises UsageError for none, or two."""
        if (self.given is None) is (self.pod is None):
            raise click.UsageError(
                "FILE is missing: `numaudit fit pod.yaml`, or - for the standard input"
                if self.pod is None
                else "FILE is given twice, by its place and by -f: leave out one"
            )
        return cast("Path", self.given or self.pod)


def run(asked: FitOptions) -> None:
    """Print what the options ask for. Raises InputError for options that do not fit, and Unavailable."""
    gates = read_feature_gates(asked.feature_gates) if asked.feature_gates else {}
    manifests = read_manifests(yaml_document.read_all(asked.file, "the pod"))
    node, host = node_of(asked.node, asked.root, asked.kubernetes_version, gates)
    if host is not None and any(_wants_huge_pages(one.pod) for one in manifests):
        node = replace(node, huge_pages=_huge_pages(host))
    found = [_explained(node, one, asked.count, with_room=asked.with_room) for one in manifests]
    for notice in dict.fromkeys(notice for one in found for notice in one.notices):
        click.echo(f"numaudit: {notice}", err=True)
    _print(found, asked.output, host)
    if asked.fail_on_reject and any(one.is_open for one in found):
        click.get_current_context().exit(EXIT_INCONCLUSIVE)
    if asked.fail_on_reject and not all(one.fits and (asked.count is None or one.replicas_fit) for one in found):
        click.get_current_context().exit(EXIT_FINDINGS)


def _explained(node: Node, manifest: Manifest, count: int | None, *, with_room: bool) -> Explanation:
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
        node.kubelet.features.verifies_huge_pages and _wants_huge_pages(pod)
    )
    roomless = [_NO_ROOM] if with_room and is_open else []
    return explanation_document.explanation(
        found,
        node.kubelet.topology.policy,
        (*node.setup.started[1], *node.notices, *unplaced, *ignored, *roomless),
        _room(node, pod) if with_room and not is_open else None,
        _doubt(node, found.admission),
        _not_added_up(node, pod),
        manifest.owner,
        _lacking(node, found.admission, {pod.uid}) if found.admission.admitted else None,
        _replicas(node, found.admission, count or manifest.replicas or 1),
    )


def _replicas(node: Node, first: Admission, asked: int) -> Replicas:
    """One after the other, until one does not fit. Raises as `admit` does."""
    kubelet, admission, uids = node.kubelet, first, set[str]()
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


def _lacking(node: Node, admission: Admission, uids: Collection[str]) -> tuple[HugePageShortage, ...] | None:
    """Huge pages that the kernel lacks for all these pods together; None = not known."""
    if node.huge_pages is None:
        return None
    before, after = node.state.memory.state, admission.state.memory.state
    return shortages(before.machine, after, frozenset(uids), node.huge_pages)


def _print(found: list[Explanation], output: str, host: Host | None) -> None:
    if output == "json":
        kind, value = ("Explanation", found[0]) if len(found) == 1 else ("ExplanationList", ExplanationList(found))
        if host is None:
            printing.json_of_no_host(kind, value)
        else:
            printing.json_of_host(kind, value, host)
        return
    from numaudit.views.terminal import explanation_tables, terminal

    if host is None:
        explanation_tables.print_explanations(found, terminal.console())
        return

    with printing.table_of_host(host) as out:
        explanation_tables.print_explanations(found, out)


def _doubt(node: Node, admission: Admission) -> explanation_document.Doubt | None:
    doubtful = node.doubtful
    if not doubtful:
        return None
    known = {uid: node.pods.names.get(uid, PodName(None, None, None)) for uid in doubtful}
    names = [full_name(one.namespace, one.pod, uid, None) for uid, one in known.items()]
    other = admit_without(node.kubelet, node.state, admission, doubtful)
    return explanation_document.doubt(names, node.pods.problem or "", admission, other)


def _not_added_up(node: Node, manifest: Pod) -> str | None:
    """The reason why what the pods of the node ask for together was not counted, or not all of it; None = it was."""
    if node.state.capacity is None:
        return node.pods.problem
    if manifest.is_critical:
        return "the pod is critical: a kubelet that lacks room for it evicts others"
    asks_for_storage = node_requests(manifest).get(EPHEMERAL_STORAGE, ZERO).nano > 0
    if asks_for_storage and EPHEMERAL_STORAGE not in node.state.capacity.allocatable:
        return "how much ephemeral storage the node has is not known"
    return None


def _room(node: Node, manifest: Pod) -> MakeRoom:
    """Only pods that kubectl can name are to leave; one of no known name has its UID for one."""
    pods = [node.state.pods[uid] for uid in removable_pods(node.kubelet, node.state, manifest)]
    unnamed = [
        one.uid for one in pods if one.name == one.uid or not (can_be_typed(one.name) and can_be_typed(one.namespace))
    ]
    return make_room(node.kubelet, node.state, manifest, unnamed=unnamed, doubtful=len(node.doubtful))
