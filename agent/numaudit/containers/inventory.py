"""The containers of this host: one walk over the cgroups, each byte owned once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containers import cgroup_path, container_names
from numaudit.containers.cgroup_path import CgroupOwner
from numaudit.containers.container_names import NAMED_BY, RuntimeNames
from numaudit.errors import escaped
from numaudit.kernel import files
from numaudit.kernel.cgroup import Cgroup, Hierarchies, Reader
from numaudit.kernel.cgroup_tree import CgroupTree, read_inodes
from numaudit.kernel.host import Host, read_text
from numaudit.snapshot import Container, ContainerId

_TERMINAL = ("container", "sandbox", "service", "scope", "job", "step")
_OWN_ROWS = ("container", "step")
"""Kinds that no group above takes as its own."""
_LONGEST_WAIT = 20
"""Ticks between two attempts to name a container."""
_POD_LOGS = re.compile(r"([a-z0-9-]+)_([a-z0-9.-]+)_([0-9a-f-]{32,36})", re.ASCII)


class Census(Struct, frozen=True):
    """Containers and the cgroups they consist of."""

    containers: tuple[Container, ...]
    groups: Mapping[ContainerId, tuple[Cgroup, ...]]
    """All cgroups of a container, its own first. One that is not `whole` has its own only."""
    children: Mapping[str, tuple[str, ...]]
    """Path of a cgroup whose children are containers of their own -> those; the root is `/`."""

    def folder(self, container: ContainerId) -> str:
        """The container's cgroup path as files have it; Container.path is this, made printable."""
        return self.groups[container][0].path

    def with_folders(self) -> Iterable[tuple[Container, str]]:
        """Each container with its folder."""
        return zip(self.containers, [groups[0].path for groups in self.groups.values()], strict=True)

    def owner_of(self) -> dict[int, ContainerId]:
        """cgroup id -> the container it belongs to."""
        return {group.id: owner for owner, groups in self.groups.items() for group in groups}


class Inventory(Struct):
    """Takes the census. What did not change since the last one is not worked out again."""

    host: Host
    hierarchies: Hierarchies
    _tree: CgroupTree | None = None
    _cgroups: list[Cgroup] = field(default_factory=list)
    _census: Census = field(default_factory=lambda: Census((), {}, {"/": ()}))
    _unnamed: dict[ContainerId, _Question] = field(default_factory=dict)
    _count: int = 0

    @property
    def census(self) -> Census:
        """The newest."""
        return self._census

    def take(self) -> Census:
        """Walk the cgroups now. Raises Unavailable when the hierarchy cannot be read at all."""
        if self._tree is None:
            self._tree = CgroupTree(self.hierarchies.memory, read_inodes(self.host))
        cgroups = self._tree.groups()
        self._count += 1
        if cgroups is not self._cgroups:
            if cgroups != self._cgroups:
                self._census = self._with_known_names(divide(cgroups))
            self._cgroups = cgroups
        self._ask_for_names()
        return self._census

    def _with_known_names(self, census: Census) -> Census:
        """Names are looked up once in a container's life."""
        before = {container.id: container for container in self._census.containers}
        containers: list[Container] = []
        for container in census.containers:
            old = before.get(container.id)
            if old is not None and old.path == container.path:
                containers.append(old if old.whole is container.whole else replace(old, whole=container.whole))
                continue
            self._unnamed.pop(container.id, None)
            containers.append(container)
            if container.pod_uid is not None or container.runtime in NAMED_BY:
                self._unnamed[container.id] = _Question(self._count)
        alive = census.groups.keys()
        self._unnamed = {id_: question for id_, question in self._unnamed.items() if id_ in alive}
        return replace(census, containers=tuple(containers))

    def _ask_for_names(self) -> None:
        """A container may have no process yet: ask again, less and less often."""
        due = {id_ for id_, question in self._unnamed.items() if question.next <= self._count}
        if not due:
            return
        facts = _PodFacts(self.host, Reader(self.hierarchies))
        containers: list[Container] = []
        for container in self._census.containers:
            if container.id in due:
                container = facts.complete(container, self._census.groups[container.id])  # noqa: PLW2901
                if _has_names(container):
                    del self._unnamed[container.id]
                else:
                    self._unnamed[container.id].put_off(self._count)
            containers.append(container)
        self._census = replace(self._census, containers=tuple(containers))


def _has_names(container: Container) -> bool:
    """All that it can have."""
    if container.pod_uid is None:
        return container.name is not None
    return container.pod is not None and (container.name is not None or container.kind != "container")


class _Question(Struct):
    """Ticks at which a container's names are looked up: 0, 1, 3, 7, ... ticks after it was first seen."""

    next: int
    _wait: int = 1

    def put_off(self, now: int) -> None:
        self.next, self._wait = now + self._wait, min(2 * self._wait, _LONGEST_WAIT)


def divide(cgroups: Iterable[Cgroup]) -> Census:
    """Divide a tree (parents first) into containers so that each cgroup belongs to exactly one.

    A Kubernetes container, systemd unit or step of a Slurm job takes all below it, unless there are containers or steps
    below (a node in a container, a runtime or slurmd inside a service); then it keeps only what is its own.
    """
    groups = list(cgroups)
    places = _places(groups)
    holds_container = _paths_above_containers(groups, places)
    children: dict[str, list[str]] = {}
    owner: dict[str, Cgroup] = {}
    members: dict[ContainerId, list[Cgroup]] = {}
    inner: set[str] = {group.parent for group in groups if group.path != "/"}
    containers: list[Container] = []
    for group in groups:
        if group.path == "/":
            children["/"] = []
            continue
        above = owner.get(group.parent)
        if above is not None:
            owner[group.path] = above
            members[ContainerId(above.id)].append(group)
            continue
        place = places[group.path]
        whole = group.path not in holds_container and (_is_unit(group.path, place) or group.path not in inner)
        if whole:
            owner[group.path] = group
        else:
            children[group.path] = []
        children[group.parent].append(group.path)
        members[ContainerId(group.id)] = [group]
        containers.append(_container(group, place, whole))
    return Census(
        tuple(containers),
        {key: tuple(value) for key, value in members.items()},
        {key: tuple(value) for key, value in children.items()},
    )


def _places(groups: Iterable[Cgroup]) -> dict[str, CgroupOwner]:
    """Each group's by that of the one above it, so that deep trees cost no more than wide ones."""
    lineages = {"/": cgroup_path.ROOT}
    for group in groups:
        if group.path != "/":
            above, _, name = group.path.rpartition("/")
            lineages[group.path] = cgroup_path.descend(lineages[above or "/"], name)
    return {path: lineage.place for path, lineage in lineages.items()}


def _is_unit(path: str, place: CgroupOwner) -> bool:
    # user@1000.service is a whole systemd of its own; its units are the useful answer.
    return place.kind in _TERMINAL and not path.rpartition("/")[2].startswith("user@")


def _paths_above_containers(groups: list[Cgroup], places: Mapping[str, CgroupOwner]) -> set[str]:
    above: set[str] = set()
    for group in groups:
        if places[group.path].kind in _OWN_ROWS:
            parent = group.parent
            while parent != "/" and parent not in above:
                above.add(parent)
                parent = parent.rpartition("/")[0] or "/"
    return above


def _container(group: Cgroup, place: CgroupOwner, whole: bool) -> Container:
    return Container(
        id=ContainerId(group.id),
        path=escaped(group.path),
        kind=place.kind,
        whole=whole,
        qos=place.qos,
        runtime=place.runtime,
        container_id=place.container_id,
        pod_uid=place.pod_uid,
        name=place.name,
    )


@dataclass(slots=True)
class _PodFacts:
    """Names of pods and containers, from what the node itself keeps."""

    host: Host
    reader: Reader
    _pods: dict[str, tuple[str, str]] | None = None
    _runtime_names: RuntimeNames = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self._runtime_names = RuntimeNames(self.host)

    def complete(self, container: Container, groups: tuple[Cgroup, ...]) -> Container:
        pod_uid = container.pod_uid
        if pod_uid is None:
            name = self._runtime_names.name(container.runtime, container.container_id)
            return replace(container, name=None if name is None else escaped(name))
        namespace, pod = self._pod_names().get(pod_uid, (None, None))
        container = replace(container, namespace=namespace, pod=pod)
        if container.kind != "container" or container.name is not None:
            return container
        found = self._mounts(pod_uid, groups)
        if found is None:
            return container
        if found.sandbox_id is not None and found.sandbox_id == container.container_id:
            return replace(container, kind="sandbox")
        return replace(container, name=found.container_name)

    def _mounts(self, pod_uid: str, groups: tuple[Cgroup, ...]) -> container_names.MountFacts | None:
        """The facts of the first process that can be read; processes end at any time."""
        for group in groups:
            try:
                processes = self.reader.processes(group.path)
            except OSError:
                continue
            for pid in processes:
                try:
                    text = read_text(self.host.proc / str(pid) / "mountinfo")
                except OSError:
                    continue
                return container_names.parse_mountinfo(text, pod_uid)
        return None

    def _pod_names(self) -> dict[str, tuple[str, str]]:
        """Pod UID -> namespace, name, by the kubelet's log folders /var/log/pods/NAMESPACE_POD_UID."""
        if self._pods is None:
            self._pods = {}
            try:
                names = files.names(self.host.at("/var/log/pods"))
            except OSError:
                names = []
            for name in names:
                match = _POD_LOGS.fullmatch(name)
                if match is not None:
                    self._pods[match[3]] = (match[1], match[2])
        return self._pods
