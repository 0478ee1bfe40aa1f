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

from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.cpu.allocation import take
from numaudit.containermanager.cpu.options import parse_cpu_options
from numaudit.containermanager.memory import static_policy
from numaudit.containermanager.memory.machine_state import default_machine_state
from numaudit.containermanager.memory.replay import check_start
from numaudit.containermanager.memory.state import MemoryState
from numaudit.containermanager.memory.static_policy import NO_HINT, MemoryPolicy
from numaudit.containermanager.plain import read_mapping, read_text
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.topologymanager import hints
from numaudit.containermanager.topologymanager.policy import OptionGates, parse_options
from numaudit.containermanager.versions import at_least_described, nearest_described, parse_version
from numaudit.errors import InputError, ParseError
from numaudit.gojson import json as go_json
from numaudit.memorymanager import question_values as values

Plain = Mapping[str, Any]

_ALL_OPTIONS = OptionGates(alpha=True, beta=True)


def initial_state(machine: Mapping[Any, Plain], reserved: Mapping[Any, Plain] | None = None) -> dict[str, Any]:
    """The state of a machine without pods.

    `machine` is node -> resource -> total, huge pages included in memory: {0: {"memory": "16Gi", "hugepages-1Gi":
    "2Gi"}}; `reserved` likewise what the system keeps. Sizes are bytes or quantities.
    """
    kept = values.read_sizes_by_node({} if reserved is None else reserved, "reserved")
    return write_state(MemoryState(default_machine_state(values.read_machine(machine), kept)))


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
    one, features = read_pod(pod), values.read_features(version, gates)
    policy = MemoryPolicy(read_state(state), {one.uid: values.read_reusable(reusable)})
    if container is None:
        return values.plain_answer(static_policy.pod_hints(policy, one, features))
    return values.plain_answer(static_policy.container_hints(policy, one, read_text(container, "container"), features))


def merge_hints(
    answers: Sequence[Mapping[str, Sequence[Plain] | None] | None],
    policy: str,
    nodes: Sequence[int],
    *,
    options: Mapping[str, str] | None = None,
    distances: Mapping[int, Mapping[int, int]] | None = None,
    version: str = "1.36",
) -> dict[str, Any]:
    """Result of the Topology Manager's merge of the providers' answers: {"nodes", "preferred", "admit"}.

    `nodes` are the machine's; `options` the topologyManagerPolicyOptions, whatever their gates say.
    """
    real = parse_version(read_text(version, "version"))
    merged = hints.merge(
        values.read_answers(answers),
        policy=read_text(policy, "policy"),
        nodes=values.read_nodes(nodes, "nodes"),
        options=parse_options(values.read_options(options), gates=_ALL_OPTIONS, version=real),
        distances=values.read_distances(distances),
        version=nearest_described(real)[0],
    )
    return {**values.plain_hint(merged.hint), "admit": merged.admit}


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
    one, features = read_pod(pod), values.read_features(version, gates)
    policy = MemoryPolicy(read_state(state), {one.uid: values.read_reusable(reusable)})
    stored = NO_HINT if hint is None else values.read_hint(hint)
    if container is None:
        done = static_policy.allocate_pod(policy, one, stored, features)
    else:
        done = static_policy.allocate(policy, one, read_text(container, "container"), stored, features)
    return {
        "state": write_state(done.policy.state),
        "reusable": {str(nodes): dict(left) for nodes, left in done.policy.reusable.get(one.uid, {}).items()},
        "nodes": None if done.affinity is None else list(done.affinity),
        "choice": str(done.choice),
    }


def remove_memory(state: Plain, pod_uid: str, container: str) -> dict[str, Any]:
    """The state after a container is removed; one that holds nothing changes nothing."""
    uid, name = read_text(pod_uid, "pod_uid"), read_text(container, "container")
    policy = static_policy.remove_container(MemoryPolicy(read_state(state)), uid, name)
    return write_state(policy.state)


def restart_error(
    state: Plain, initial: Plain, *, version: str = "1.36", gates: Mapping[str, bool] | None = None
) -> str | None:
    """The kubelet's error when it does not start with this state on that machine; None = it starts.

    `initial` is what `initial_state` gives.
    """
    features = values.read_features(version, gates)
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
    known = at_least_described(parse_version(read_text(version, "version")))
    topology = values.read_cpu_topology(cpus)
    parsed = parse_cpu_options(values.read_options(options), gates=_ALL_OPTIONS, version=known)
    free = values.read_cpus(available, "available")
    return str(take(topology, parsed, free, values.read_count(count, "count"), version=known))


def read_state(state: Plain) -> MemoryState:
    """A state in plain values as the library's own; see `write_state`."""
    try:
        return memory_checkpoint.parse(go_json.dump(state)).state
    except ParseError as error:
        raise InputError(f"state: {error}") from None
    except (TypeError, ValueError) as error:
        problem = "a number of more than 4300 digits" if "set_int_max_str_digits" in str(error) else error
        raise InputError(f"state: {problem}") from None


def write_state(state: MemoryState) -> dict[str, Any]:
    """A state of the library in plain values, in the words of `memory_manager_state`."""
    document = seal.write(MemoryCheckpoint("", state.machine, state.entries, state.pod_entries, checksum=0))
    plain = go_json.load(document)
    return {"entries": {}, "podEntries": {}} | {
        key: value for key, value in read_mapping(plain, "state").items() if key not in ("policyName", "checksum")
    }
