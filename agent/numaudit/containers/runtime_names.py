"""Names of containers of Docker and Podman, from their own state on disk. No daemon is asked.

Source: moby: daemon/container (config.v2.json, `Name` begins with a slash); containers/storage (containers.json).

"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes

NAMED_BY = ("docker", "podman")
"""Runtimes that give names by themselves."""

_DOCKER = "/var/lib/docker/containers"
_PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"


class _OfDocker(msgspec.Struct):
    """Fields read from a config.v2.json. The file holds the container's environment, too."""

    name: str = msgspec.field(name="Name", default="")


class _OfPodman(msgspec.Struct):
    id: str = ""
    names: list[str] = []


@dataclass(slots=True)
class RuntimeNames:
    """The names at one time; each file is read once. What cannot be read has no names."""

    host: Host
    _podman: Mapping[str, str] | None = field(default=None, init=False)

    def name(self, runtime: str | None, container_id: str | None) -> str | None:
        """None = the runtime is another, keeps its state elsewhere or to itself, or the container has no name."""
        if container_id is None or not container_id.isalnum():
            return None
        if runtime == "docker":
            return _docker_name(self.host.at(f"{_DOCKER}/{container_id}/config.v2.json"))
        if runtime != "podman":
            return None
        if self._podman is None:
            self._podman = _podman_names(self.host.at(_PODMAN))
        return self._podman.get(container_id)


def sources(host: Host) -> Iterator[Path]:
    """The files that `RuntimeNames` reads. Raises OSError, when Docker's folder may not be listed."""
    yield host.at(_PODMAN)
    folder = host.at(_DOCKER)
    yield from (folder / name / "config.v2.json" for name in sorted(files.names(folder)))


def names_only(path: Path, content: bytes) -> bytes:
    """One of these files with nothing in it but names, for a captured tree. Raises ValueError."""
    if path.name == "containers.json":
        return msgspec.json.encode(msgspec.json.decode(content, type=list[_OfPodman]))
    return msgspec.json.encode(msgspec.json.decode(content, type=_OfDocker))


def _docker_name(path: Path) -> str | None:
    try:
        return msgspec.json.decode(read_bytes(path), type=_OfDocker).name.lstrip("/") or None
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def _podman_names(path: Path) -> dict[str, str]:
    try:
        found = msgspec.json.decode(read_bytes(path), type=list[_OfPodman])
    except (OSError, msgspec.MsgspecError, ValueError):
        return {}
    return {one.id: one.names[0] for one in found if one.names and one.names[0]}
