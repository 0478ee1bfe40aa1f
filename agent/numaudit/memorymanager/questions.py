"""The library's questions in plain values, as JSON has them: for a script, a notebook, a test of another project.

A *state* is what `memory_manager_state` holds: {"machineState": {...}, "entries": {...}, "podEntries": {...}}, where
all keys but the first may be missing. A *pod* is a v1 Pod (see `read_pod`). A *hint* is {"nodes": [0, 1],
"preferred": true}, with nodes null for "any"; a provider's *answer* is null, or {resource: null or a list of hints}.
*Reusable* is what the pod's ended init containers leave: {"0-1": {"memory": bytes}} by list of nodes.
`version` and `gates` are those of the kubelet ("1.36", {"PodLevelResourceManagers": true}).

All raise InputError for values of another form, and for those on which a kubelet would crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaudit.errors import InputError, ParseError
from numaudit.memorymanager import go_json, hints, memory_checkpoint, static_policy
from numaudit.memorymanager.candidates import Reusable
from numaudit.memorymanager.cpu_allocation import take
from numaudit.memorymanager.cpu_options import parse_cpu_options
from numaudit.memorymanager.cpu_topology import CPUInfo, CPUTopology
from numaudit.memorymanager.hints import ProviderHints, TopologyHint
from numaudit.memorymanager.machine_state import default_machine_state
from numaudit.memorymanager.memory_checkpoint import MemoryCheckpoint
from numaudit.memorymanager.plain import read_mapping, read_quantity, read_sequence
from numaudit.memorymanager.pod import HUGEPAGES_PREFIX, MEMORY
from numaudit.memorymanager.pod_manifest import read_pod
from numaudit.memorymanager.replay import check_start
from numaudit.memorymanager.state import State
from numaudit.memorymanager.static_policy import NO_HINT, MemoryPolicy
from numaudit.memorymanager.topology_policy import OptionGates, parse_options
from numaudit.memorymanager.versions import KubeletFeatures, nearest_described, parse_version
from numaudit.topology.machine import HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

Plain = Mapping[str, Any]

_ALL_OPTIONS = OptionGates(alpha=True, beta=True)


def initial_state(machine: Mapping[Any, Plain], reserved: Mapping[Any, Plain] | None = None) -> dict[str, Any]:
    """The state of a machine without pods.

    `machine` is node -> resource -> total, huge pages included in memory: {0: {"memory": "16Gi", "hugepages-1Gi":
    "2Gi"}}; `reserved` likewise what the system keeps. Sizes are bytes or quantities.
    """
    kept = {_node_id(node): _sizes(amounts, f"reserved.{node}") for node, amounts in (reserved or {}).items()}
    nodes = tuple(_node(_node_id(node), _sizes(amounts, f"machine.{node}")) for node, amounts in machine.items())
    return write_state(State(default_machine_state(Machine(nodes), kept)))


def memory_hints(
    state: Plain,
    pod: Plain,
    container: str | None = None,
    *,
    reusable: Plain | None = None,
    version: str = "1.36",
    gates: Mapping[str, bool] | None = None,
) -> dict[str, list[dict[str, Any]] | None] | None:
    """The Memory Manager's answer for a container, or for the whole pod (None)."""
    one, features = read_pod(pod), KubeletFeatures.of(version, gates)[0]
    policy = MemoryPolicy(read_state(state), {one.uid: _reusable(reusable)})
    if container is None:
        return _plain_answer(static_policy.pod_hints(policy, one, features))
    return _plain_answer(static_policy.container_hints(policy, one, container, features))


def merge_hints(
    answers: Sequence[Mapping[str, Sequence[Plain] | None] | None],
    policy: str,
    nodes: Sequence[int],
    *,
    options: Mapping[str, str] | None = None,
    distances: Mapping[int, Mapping[int, int]] | None = None,
    version: str = "1.36",
) -> dict[str, Any]:
    """What the Topology Manager makes of the providers' answers: {"nodes", "preferred", "admit"}.

    `nodes` are the machine's; `options` the topologyManagerPolicyOptions, whatever their gates say.
    """
    real = parse_version(version)
    merged = hints.merge(
        [_answer(one) for one in answers],
        policy=policy,
        nodes=_node_set(nodes, "nodes"),
        options=parse_options(options or {}, gates=_ALL_OPTIONS, version=real),
        distances=distances,
        version=nearest_described(real)[0],
    )
    return {**_plain_hint(merged.hint), "admit": merged.admit}


def allocate_memory(
    state: Plain,
    pod: Plain,
    container: str | None = None,
    hint: Plain | None = None,
    *,
    reusable: Plain | None = None,
    version: str = "1.36",
    gates: Mapping[str, bool] | None = None,
) -> dict[str, Any]:
    """Give a container its memory, or a pod with pod-level resources (None): {"state", "reusable", "nodes", "choice"}.

    `hint` is what the Topology Manager stored (None = nothing). "nodes" is null when no memory is given.
    Raises AdmissionError with the kubelet's text.
    """
    one, features = read_pod(pod), KubeletFeatures.of(version, gates)[0]
    policy = MemoryPolicy(read_state(state), {one.uid: _reusable(reusable)})
    stored = NO_HINT if hint is None else _hint(hint)
    if container is None:
        done = static_policy.allocate_pod(policy, one, stored, features)
    else:
        done = static_policy.allocate(policy, one, container, stored, features)
    return {
        "state": write_state(done.policy.state),
        "reusable": {str(nodes): dict(left) for nodes, left in done.policy.reusable.get(one.uid, {}).items()},
        "nodes": None if done.affinity is None else list(done.affinity),
        "choice": str(done.choice),
    }


def remove_memory(state: Plain, pod_uid: str, container: str) -> dict[str, Any]:
    """The state after a container is removed; one that holds nothing changes nothing."""
    policy = static_policy.remove_container(MemoryPolicy(read_state(state)), pod_uid, container)
    return write_state(policy.state)


def restart_error(
    state: Plain, initial: Plain, *, version: str = "1.36", gates: Mapping[str, bool] | None = None
) -> str | None:
    """What the kubelet says when it does not start with this state on that machine; None = it starts.

    `initial` is what `initial_state` gives.
    """
    features = KubeletFeatures.of(version, gates)[0]
    refusal = check_start(
        read_state(state),
        read_state(initial).machine,
        version=features.version,
        pod_level=features.pod_level_resource_managers,
    )
    return None if refusal is None else refusal.message


def take_cpus(
    cpus: Mapping[int, Sequence[int]],
    available: str,
    count: int,
    options: Mapping[str, str] | None = None,
    *,
    version: str = "1.36",
) -> str:
    """The CPUs that the CPU Manager takes: "1-3,9".

    `cpus` is CPU -> [node, socket, core, uncore cache], the core by its lowest CPU; `options` the
    cpuManagerPolicyOptions, whatever their gates say. Raises AdmissionError, KubeletHangs.
    """
    described = nearest_described(parse_version(version))[0]
    for cpu, where in cpus.items():
        if len(where) != 4:
            raise InputError(f"cpus.{cpu}: must be [node, socket, core, uncore cache], not {where!r}")
    topology = CPUTopology({cpu: CPUInfo(*where) for cpu, where in cpus.items()})
    parsed = parse_cpu_options(options or {}, gates=_ALL_OPTIONS, version=described)
    try:
        free = CpuSet.parse(available)
    except ParseError as error:
        raise InputError(f"available: {error}") from None
    return str(take(topology, parsed, free, count, version=described))


def read_state(state: Plain) -> State:
    """A state in plain values as the library's own; see `write_state`."""
    try:
        return memory_checkpoint.parse(go_json.dump(state)).state
    except (ParseError, TypeError, ValueError) as error:
        raise InputError(f"state: {error}") from None


def write_state(state: State) -> dict[str, Any]:
    """A state of the library in plain values, in the words of `memory_manager_state`."""
    document = memory_checkpoint.write(MemoryCheckpoint("", state.machine, state.entries, state.pod_entries, 0))
    plain = go_json.load(document)
    return {"entries": {}, "podEntries": {}} | {
        key: value for key, value in read_mapping(plain, "state").items() if key not in ("policyName", "checksum")
    }


def _node(id_: int, sizes: Mapping[str, int]) -> Node:
    pages: list[HugePages] = []
    for name, total in sizes.items():
        if name != MEMORY:
            size = read_quantity(name.removeprefix(HUGEPAGES_PREFIX), f"machine.{id_}.{name}").value
            if size == 0 or total % size:
                raise InputError(f"machine.{id_}.{name}: {total} bytes are no whole number of these pages")
            pages.append(HugePages(size, total // size))
    return Node(id_, memory=sizes.get(MEMORY, 0), huge_pages=tuple(sorted(pages, key=lambda one: one.page_size)))


def _sizes(amounts: object, where: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, amount in read_mapping(amounts, where).items():
        if name != MEMORY and not name.startswith(HUGEPAGES_PREFIX):
            raise InputError(f"{where}: {name!r} is neither memory nor hugepages-<size>")
        sizes[name] = read_quantity(amount, f"{where}.{name}").value
    return sizes


def _node_id(node: object) -> int:
    text = str(node)
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"not a NUMA node: {node!r}")
    return int(text)


def _node_set(nodes: object, where: str) -> NodeSet:
    ids = read_sequence(nodes, where)
    try:
        return NodeSet.from_ids(one if isinstance(one, int) else _node_id(one) for one in ids)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _reusable(left: Plain | None) -> Reusable:
    reusable: dict[NodeSet, dict[str, int]] = {}
    for nodes, amounts in (left or {}).items():
        try:
            reusable[NodeSet.parse(nodes)] = _sizes(amounts, f"reusable.{nodes}")
        except ParseError as error:
            raise InputError(f"reusable: {error}") from None
    return reusable


def _answer(answer: Mapping[str, Sequence[Plain] | None] | None) -> ProviderHints:
    if answer is None:
        return None
    return {name: None if given is None else [_hint(one) for one in given] for name, given in answer.items()}


def _hint(hint: object) -> TopologyHint:
    fields = read_mapping(hint, "hint")
    preferred = fields.get("preferred", False)
    if fields.keys() - {"nodes", "preferred"} or not isinstance(preferred, bool):
        raise InputError(f"hint: must be {{'nodes': [0], 'preferred': True}}, not {hint!r}")
    nodes = fields.get("nodes")
    return TopologyHint(None if nodes is None else _node_set(nodes, "hint.nodes"), preferred)


def _plain_answer(answer: ProviderHints) -> dict[str, list[dict[str, Any]] | None] | None:
    if answer is None:
        return None
    return {name: None if given is None else [_plain_hint(one) for one in given] for name, given in answer.items()}


def _plain_hint(hint: TopologyHint) -> dict[str, Any]:
    return {"nodes": None if hint.affinity is None else list(hint.affinity), "preferred": hint.preferred}
