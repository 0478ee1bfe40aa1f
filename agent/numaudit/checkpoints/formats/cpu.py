"""`cpu_manager_state`: the checkpoint of the CPU Manager, bit for bit.

V2, since Kubernetes 1.18, knows containers by pod and name, V3 (1.36 with the feature gate
PodLevelResourceManagers) adds `podEntries`. V4, since 1.37, is a V2 file with a `seal` beside it, which alone
counts. CPU lists stay the texts they are in the file, because the checksum of V2 is taken over the texts.

Source: pkg/kubelet/cm/cpumanager/state/{checkpoint,state_checkpoint}.go, k8s.io/utils/cpuset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding import go_json
from numaudit.encoding.checksum import Verification, checksum, identify, render_map
from numaudit.encoding.go_json import NIL_MAP, Reader, Uint64, WrongType
from numaudit.encoding.go_syntax import GoSyntaxError, atoi, quote
from numaudit.errors import ParseError
from numaudit.topology.nodeset import CpuSet

ChecksumFormat = Literal["V2", "V3", "V4", "no checksum"]

WITH_PODS = ("V3", "V4")
"""The formats whose checksum covers `podEntries`."""

_SHORT = 100
"""Length of a CPU list whose meaning is remembered; longer ones would take much memory."""


class OldFormat(ParseError):
    """No kubelet that is supported writes this format."""


class _Pod(Struct, frozen=True, rename="camel"):
    cpu_set: str


class _Content(Struct, frozen=True, rename="camel", omit_defaults=True):
    policy_name: str
    default_cpu_set: str
    entries: Mapping[str, str | Mapping[str, str]] | None = field(default_factory=dict)
    """V1, until Kubernetes 1.17, has a text for each container id."""
    pod_entries: Mapping[str, _Pod] | None = field(default_factory=dict)


class _File(_Content, frozen=True, rename="camel", omit_defaults=True):
    checksum: Uint64 | UnsetType = UNSET
    data: str = ""
    data_checksum: Uint64 = 0


_CONTENT, _FILE = Reader(_Content, "data"), Reader(_File)


@dataclass(frozen=True, slots=True)
class CpuCheckpoint(SealedCheckpoint):
    """The file's content, of V4 that of its `data`; CPU lists such as `0-3,8`. None = Go's nil (an explicit null)."""

    policy_name: str
    default_cpu_set: str
    entries: Mapping[str, Mapping[str, str]] | None
    """Pod UID -> container name -> CPU list."""
    pod_entries: Mapping[str, str] | None
    """Pod UID -> CPU list of the whole pod."""

    @classmethod
    def of(
        cls,
        policy_name: str,
        state: CPUState,
        *,
        pod_level: bool = False,
        version: KubernetesVersion = LATEST,
    ) -> CpuCheckpoint:
        """The kubelet's file for this state, checksums included; `pod_level`: PodLevelResourceManagers."""
        lists = {uid: {name: str(cpus) for name, cpus in held.items()} for uid, held in state.entries.items()}
        pods = {uid: str(cpus) for uid, cpus in state.pod_entries.items()} if pod_level else {}
        form: ChecksumFormat = "V3" if pod_level and version < seal.SINCE else "V2"
        whole = cls(policy_name, str(state.default_cpus), lists, pods, checksum=0)
        return seal.with_checksums(whole, replace(whole, pod_entries={}), version, lambda one: _render(one, form))

    @property
    def content(self) -> _Content:
        entries = go_json.go_map(self.entries or {}, go_json.go_map)
        pods = go_json.go_map(self.pod_entries or {}, _Pod)
        return _Content(self.policy_name, self.default_cpu_set, entries, pods)

    @property
    def state(self) -> CPUState:
        """The same as plain values. Raises ParseError where a text is no CPU list, which `parse` has refused."""
        entries = {
            uid: {name: _cpus(text, f"entries.{uid}.{name}") for name, text in containers.items()}
            for uid, containers in (self.entries or {}).items()
        }
        return CPUState(_cpus(self.default_cpu_set, "defaultCpuSet"), entries, _pods(self.pod_entries or {}))


def parse(data: bytes) -> CpuCheckpoint:
    """Read the file. Checksums are not compared: see `verify`. So V4 is read even where `data` is damaged;
    then the content is that outside of it.

    Raises ParseError naming the path of what is wrong, also where a text is no CPU list.
    """
    checkpoint = unmarshal(data)
    _ = checkpoint.state  # refuses what is no CPU list
    return checkpoint


def unmarshal(data: bytes) -> CpuCheckpoint:
    """The same, whatever the CPU lists of containers say: the kubelet checks the checksum and the policy first."""
    return seal.unmarshal(data, _FILE, _CONTENT, _checkpoint)


def verify(checkpoint: CpuCheckpoint) -> Verification:
    """Find the format whose checksum is the stored one. See `accepts` for what a given kubelet makes of it."""
    if checkpoint.seal is not None:
        return seal.verify(checkpoint.seal, "V4")
    forms: tuple[ChecksumFormat, ...] = ("V3", "V2") if checkpoint.pod_entries else ("V2", "V3")
    if checkpoint.checksum == 0:
        return Verification("no checksum", 0, checksum(_render(checkpoint, forms[0])))
    return identify(checkpoint.checksum, ((form, _render(checkpoint, form)) for form in forms))


def accepts(form: str | None, *, version: KubernetesVersion = LATEST, pod_level: bool = False) -> bool:
    """Does this kubelet read a file of that format? `pod_level`: gate PodLevelResourceManagers."""
    if form == "V3":
        return version >= seal.SINCE or (version >= (1, 36) and pod_level)
    if form == "V4":
        return version >= seal.SINCE
    return form in ("V2", "no checksum")


def parse_cpus(text: str) -> CpuSet:
    """A CPU list as Go's `cpuset.Parse` reads it: no spaces, no strides, no ids beyond ours.

    Raises GoSyntaxError with Go's text, and ParseError for ids that no machine has, which Go reads.
    """
    return _parse_short_list(text) if len(text) <= _SHORT else _parse_list(text)


def _parse_list(text: str) -> CpuSet:
    parts = text.split(",") if text else []
    if len(parts) > CpuSet.limit:
        raise ParseError(f"a list of {len(parts)} CPUs and ranges: there are at most {CpuSet.limit} CPUs")
    ids = CpuSet()
    for part in parts:
        first, dash, last = part.partition("-")
        start = atoi(first)
        end = atoi(last) if dash else start
        if start > end:
            raise GoSyntaxError(f"invalid range {quote(part)} ({start} > {end})")
        if not 0 <= start <= end < CpuSet.limit:
            raise ParseError(f"CPUs {part[:60]!r} are not within 0..{CpuSet.limit - 1}")
        ids |= CpuSet(((1 << (end - start + 1)) - 1) << start)
    return ids


def _checkpoint(content: _Content, checksum: int) -> CpuCheckpoint:
    by_id = {name for name, held in (content.entries or {}).items() if isinstance(held, str)}
    entries = {name: held for name, held in (content.entries or {}).items() if not isinstance(held, str)}
    if by_id and entries:
        raise WrongType(f"entries.{next(iter(entries))}", "a text", {})
    if by_id:
        raise OldFormat("containers are known by their id, as until Kubernetes 1.17")
    pods = None if content.pod_entries is None else {uid: pod.cpu_set for uid, pod in content.pod_entries.items()}
    if sum(map(_least_cpus, (pods or {}).values())) > CpuSet.limit:
        raise ParseError(f"podEntries: more than {CpuSet.limit} CPUs in all; pods share none")
    return CpuCheckpoint(
        content.policy_name,
        content.default_cpu_set,
        None if content.entries is None else entries,
        pods,
        checksum=checksum,
    )


_parse_short_list = lru_cache(maxsize=4096)(_parse_list)


def _cpus(text: str, where: str) -> CpuSet:
    try:
        return parse_cpus(text)
    except GoSyntaxError:
        raise ParseError(f"{where}: not a CPU list such as 0-3,8: {text[:60]!r}") from None
    except ParseError as error:
        raise ParseError(f"{where}: {error}") from None


def _pods(pod_entries: Mapping[str, str]) -> dict[str, CpuSet]:
    return {uid: _cpus(text, f"podEntries.{uid}.cpuSet") for uid, text in pod_entries.items()}


def _least_cpus(text: str) -> int:
    """Number of CPUs that a list names; 0 = the list cannot be read, which another check reports."""
    try:
        return len(parse_cpus(text))
    except (GoSyntaxError, ParseError):
        return 0


def _render(checkpoint: CpuCheckpoint, form: ChecksumFormat) -> str:
    pods = ""
    held = checkpoint.entries
    entries = render_map(None if held is None else _render_containers(held))
    if form == "V3":
        shared = None if checkpoint.pod_entries is None else _render_pods(_pods(checkpoint.pod_entries))
        pods = f" PodEntries:(state.PodCPUAssignments){render_map(shared)}"
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){checkpoint.policy_name}"
        f" DefaultCPUSet:(string){checkpoint.default_cpu_set}"
        f" Entries:(map[string]map[string]string){entries}{pods} Checksum:(checksum.Checksum)0}}"
    )


def _render_containers(entries: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for uid, containers in sorted(entries.items()):
        yield uid, render_map(None if containers is NIL_MAP else sorted(containers.items()))


def _render_pods(pods: Mapping[str, CpuSet]) -> Iterator[tuple[str, str]]:
    for uid, cpus in sorted(pods.items()):
        elements = render_map((cpu, "{}") for cpu in cpus)
        yield uid, f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){elements}}}}}"
