"""The kubelet's message when it refuses a checkpoint at its start.

It reads the file, compares the checksum, then the policy, then the content with the machine; the first
objection stops it. The checks of the content are in `memory.replay` and `cpu.start`.

JSON errors: those of the syntax are Go's to the letter. Where a value has the wrong type, the kubelet's
text goes on with the name of a Go field, which differs between builds; here it goes on with the value's
path in the file. Go also names the first such value of the file, here it may be another one.

Source: pkg/kubelet/cm/{memorymanager,cpumanager,dra}/state/state_checkpoint.go, pkg/kubelet/cm/dra/*.go,
pkg/kubelet/checkpointmanager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypedDict, TypeVar

from numaudit.checkpoints.formats import claims as claim_checkpoint
from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats.cpu import CpuCheckpoint, parse_cpus
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY, CheckpointKind, verify
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import Seal, SealedCheckpoint
from numaudit.checkpoints.start.outlook import KubeletAtStart, Outlook, pod_level_gate
from numaudit.containermanager.cpu import start as cpu_start
from numaudit.containermanager.cpu.topology import CPUPolicy, CPUState
from numaudit.containermanager.memory.replay import check_start
from numaudit.containermanager.memory.state import MachineState, MemoryState
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding.checksum import Verification
from numaudit.encoding.go_json import WrongType
from numaudit.encoding.go_syntax import GoRefusal, GoSyntaxError, quote
from numaudit.errors import InputError, ParseError
from numaudit.topology.nodeset import CpuSet

KUBELET_ROOT = "/var/lib/kubelet"
CORRUPTED = "checkpoint is corrupted"
Read = TypeVar("Read", MemoryCheckpoint, CpuCheckpoint)


class _Manager(NamedTuple):
    """In what the words about the two managers differ."""

    name: str
    file: CheckpointKind
    sealed: str
    """Its format with a seal."""
    accepts: Callable[..., bool]
    blames_itself: str = ""


_MEMORY = _Manager("memory", MEMORY, "v3", memory_checkpoint.accepts, "[memorymanager] ")
_CPU = _Manager("CPU", CPU, "v4", cpu_checkpoint.accepts)


class _Gates(TypedDict):
    directory: str
    version: KubernetesVersion
    pod_level: bool


def kubelet_says(
    kind: CheckpointKind, data: bytes, outlook: Outlook | None, kubelet: KubeletAtStart, directory: str
) -> str | None:
    """The kubelet's words when it does not start with this file; None = it starts, or they are not known.

    `outlook` None = the file could not be read. `directory` is where the kubelet has the file.
    """
    read = None if outlook is None else outlook.read
    kubelet = kubelet if read is None else kubelet.assumed_for(read)
    if outlook is not None and _is_beyond_us(outlook):
        return None
    as_read = None if outlook is None else outlook.read_as or outlook.verification
    pod_level = bool(kubelet.pod_level) if as_read is None else pod_level_gate(as_read, kubelet)
    policy = kubelet.memory_policy if kind == MEMORY else kubelet.cpu_policy
    gates: _Gates = {"directory": directory, "version": kubelet.version, "pod_level": pod_level}
    try:
        if kind == DEVICES:
            not_restored = None
        elif kind == CLAIMS:
            not_restored = claims_start_error(data) if kubelet.reads_claims else None
        elif isinstance(read, SealedCheckpoint) and as_read is not None:
            not_restored = restore_error(read, as_read, policy=policy, **gates)
        else:
            start_error = memory_start_error if kind == MEMORY else cpu_start_error
            not_restored = start_error(data, policy=policy, **gates)
    except ParseError:
        return None
    if not_restored is not None or outlook is None:
        return not_restored
    if outlook.refusal is not None:
        return outlook.refusal.message
    return next((one.message for one in outlook.findings if one.name == "cpu-state-refused"), None)


def _is_beyond_us(outlook: Outlook) -> bool:
    stops = {finding.stops for finding in outlook.findings}
    return "unknown" in stops and "start" not in stops


def memory_start_error(
    data: bytes | None,
    *,
    policy: str | None = None,
    directory: str = KUBELET_ROOT,
    machine: MachineState | None = None,
    version: KubernetesVersion = LATEST,
    pod_level: bool = False,
) -> str | None:
    """Error of the Memory Manager when it does not start with this `memory_manager_state`; None = it starts.

    `data` None = there is no file, so the kubelet writes one. `policy` is the configured one (None = do
    not compare), `directory` where the file is, `machine` the memory map of the machine without pods
    (`default_machine_state`; None = do not compare), `pod_level` the gate PodLevelResourceManagers.
    Raises ParseError for what Go reads but no kubelet writes, where its answer is not known: text that
    is no UTF-8, a negative node, a key that occurs twice.
    """
    if data is None:
        return None
    gates: _Gates = {"directory": directory, "version": version, "pod_level": pod_level}
    read, form, problem = _read(_MEMORY, memory_checkpoint.parse, data, policy, gates)
    if read is None or machine is None or read.policy_name != "Static":
        return problem
    state, counts_pods = read.state, pod_level and form in memory_checkpoint.WITH_PODS
    restored = state if counts_pods else MemoryState(state.machine, state.entries)
    refusal = check_start(restored, machine, version=version, pod_level=counts_pods)
    return None if refusal is None else refusal.message


def cpu_start_error(
    data: bytes | None,
    *,
    policy: str | None = None,
    directory: str = KUBELET_ROOT,
    manager: CPUPolicy | None = None,
    version: KubernetesVersion = LATEST,
    pod_level: bool = False,
) -> str | None:
    """Error of the CPU Manager when it does not start with this `cpu_manager_state`; None = it starts.

    As `memory_start_error`; `manager` is the static policy on this machine (`read_kubelet(...).cpu`;
    None = do not compare).
    """
    if data is None:
        return None
    gates: _Gates = {"directory": directory, "version": version, "pod_level": pod_level}
    read, form, problem = _read(_CPU, cpu_checkpoint.unmarshal, data, policy, gates)
    if read is None or manager is None or read.policy_name != cpu_start.STATIC:
        return problem
    try:
        cpu_start.start(manager, _cpu_state(read, with_pods=pod_level and form in cpu_checkpoint.WITH_PODS))
    except InputError as error:
        return str(error)
    return None


def _read(
    manager: _Manager, parse: Callable[[bytes], Read], data: bytes, policy: str | None, gates: _Gates
) -> tuple[Read | None, str | None, str | None]:
    """The file as this kubelet reads it, and its format; where it refuses it, None and its words."""
    try:
        checkpoint = parse(data).as_read_by(gates["version"])
        verification = verify(checkpoint)
    except ParseError as error:
        return None, None, _not_restored(manager, gates["directory"], _json_error(error))
    problem = restore_error(checkpoint, verification, policy=policy, **gates)
    return (checkpoint, verification.form, None) if problem is None else (None, None, problem)


def claims_start_error(data: bytes) -> str | None:
    """Error of the DRA Manager when it does not start with this `dra_manager_state`; None = it starts.

    Raises ParseError where the kubelet's words are not known: where a text whose checksum fits is no list of claims.
    """
    try:
        checkpoint = claim_checkpoint.parse(data)
    except ParseError as error:
        if isinstance(error, WrongType) and error.path.startswith("Data."):
            raise
        problem = _json_error(error)
    else:
        if claim_checkpoint.verify(checkpoint).is_valid:
            return None
        problem = CORRUPTED
    return (
        "failed to create claimInfo cache: error calling GetOrCreate() on checkpoint state: failed to get checkpoint "
        f"{CLAIMS}: {problem}"
    )


def restore_error(
    checkpoint: MemoryCheckpoint | CpuCheckpoint,
    verification: Verification,
    *,
    policy: str | None,
    directory: str,
    version: KubernetesVersion,
    pod_level: bool,
) -> str | None:
    """The first part of both, for a file that was read already as this kubelet reads it."""
    manager = _MEMORY if isinstance(checkpoint, MemoryCheckpoint) else _CPU
    if not manager.accepts(verification.form, version=version, pod_level=pod_level):
        return _not_restored(manager, directory, _not_accepted(checkpoint.seal, manager))
    if policy is not None and policy != checkpoint.policy_name:
        stored = quote(checkpoint.policy_name)
        differs = f"configured policy {quote(policy)} differs from state checkpoint policy {stored}"
        return _not_restored(manager, directory, f"{manager.blames_itself}{differs}")
    if isinstance(checkpoint, CpuCheckpoint):
        try:
            _cpu_state(checkpoint, with_pods=pod_level and verification.form in cpu_checkpoint.WITH_PODS)
        except GoSyntaxError as error:
            return _not_restored(manager, directory, str(error))
    return None


def _cpu_state(checkpoint: CpuCheckpoint, *, with_pods: bool) -> CPUState:
    """Raises GoSyntaxError with the kubelet's text for a list that it cannot read."""
    try:
        default = parse_cpus(checkpoint.default_cpu_set)
    except GoSyntaxError as error:
        raise GoSyntaxError(f"could not parse default cpu set {quote(checkpoint.default_cpu_set)}: {error}") from None
    entries = {
        uid: {name: _container_cpus(text, name, uid) for name, text in containers.items()}
        for uid, containers in (checkpoint.entries or {}).items()
    }
    pods = checkpoint.pod_entries if with_pods else None
    return CPUState(default, entries, {uid: parse_cpus(text) for uid, text in (pods or {}).items()})


def _container_cpus(text: str, name: str, uid: str) -> CpuSet:
    try:
        return parse_cpus(text)
    except GoSyntaxError as error:
        raise GoSyntaxError(
            f"could not parse cpuset {quote(text)} for container {quote(name)} in pod {quote(uid)}: {error}"
        ) from None


def _json_error(error: ParseError) -> str:
    """Go's words for a document that was not read. Raises the error again where Go would have read it."""
    if isinstance(error, GoRefusal) and error.in_go is not None:
        return error.in_go
    raise error


def _not_accepted(seal: Seal | None, manager: _Manager) -> str:
    """Raises ParseError where the kubelet's words about data of the wrong form are not known."""
    if seal is None:
        return CORRUPTED
    if not seal.checksum_fits:
        return f"could not load {manager.sealed} checkpoint: {CORRUPTED}"
    if seal.go_problem is None:
        raise ParseError(f"{seal.problem}")
    what = f"{manager.name.lower()} manager checkpoint data"
    return f"could not load {manager.sealed} checkpoint: failed to deserialize {what}: {seal.go_problem}"


def _not_restored(manager: _Manager, directory: str, why: str) -> str:
    file = f"{directory.rstrip('/')}/{manager.file}"
    return (
        f"could not restore state from checkpoint: {why}, please drain this node and delete the {manager.name} manager "
        f"checkpoint file {quote(file)} before restarting Kubelet"
    )
