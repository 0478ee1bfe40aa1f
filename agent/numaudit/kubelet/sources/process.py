"""The kubelet's process on this host, and the configuration it was started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import ParseError, Unavailable
from numaudit.intent.kubelet import KubeletConfig
from numaudit.kernel.host import Host, explain, may_exist, read_bytes, read_text
from numaudit.kubelet.parsers import config as kubelet_config
from numaudit.kubelet.parsers.config import ConfigDocument, KubeletFlags
from numaudit.kubelet.sources.presence import find

_USUAL_FILES = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubelet/config.json")
"""kubeadm, hand-made set-ups, and a cloud's images."""


class StartSettings(Struct, frozen=True):
    """The configuration, and what of it could not be seen."""

    config: KubeletConfig
    root_dir: str | None = None
    """`--root-dir`; None = not given."""
    reason: str | None = None
    files: Mapping[Path, bytes] = field(default_factory=dict)
    """Contents of its configuration files."""


class LocatedKubelet(Struct, frozen=True):
    """A host with the root folder (`--root-dir`) of its kubelet, where that can be seen, and how that was started."""

    host: Host
    pid: int | None = None
    """None = no kubelet is visible."""
    settings: StartSettings | None = None
    problem: str | None = None
    """Reason why the settings are not known."""


def read_settings(host: Host, pid: int | None) -> StartSettings:
    """From the process's flags and the files they name, or from a file in a usual place.

    Raises Unavailable when there is neither, or a file cannot be read or is not understood.
    """
    flags, unseen = _flags(host, pid)
    paths = _config_files(host, flags, unseen)
    if unseen is not None:
        if not paths:
            raise Unavailable(f"{unseen}, and there is no configuration file in a usual place")
        unseen = f"flags are not known: {unseen}; only {host.name_of(paths[0])} was read"
    files = {path: _read(host, path) for path in paths}
    merged = kubelet_config.merge([_parse(host, path, body) for path, body in files.items()], flags.fields)
    return StartSettings(kubelet_config.settle(merged, flags.fields, "file"), flags.root_dir, unseen, files)


def locate(host: Host) -> LocatedKubelet:
    """Find the kubelet of a host, and read how it was started."""
    pid = find(host)
    try:
        settings = read_settings(host, pid)
    except Unavailable as reason:
        return LocatedKubelet(host, pid, problem=str(reason))
    if settings.root_dir is not None:
        host = replace(host, kubelet_root=settings.root_dir)
    return LocatedKubelet(host, pid, settings)


def _flags(host: Host, pid: int | None) -> tuple[KubeletFlags, str | None]:
    """The flags, or why they cannot be seen."""
    if pid is None:
        return KubeletFlags(), "no kubelet process is visible"
    try:
        return kubelet_config.read_flags(_arguments(host, pid)), None
    except OSError as error:
        return KubeletFlags(), explain(error, f"/proc/{pid}/cmdline")
    except ParseError as error:
        raise Unavailable(f"cannot parse the kubelet's command line: {error}") from None


def config_files(host: Host) -> tuple[Path, ...]:
    """The configuration files that `read_settings` reads. Raises Unavailable as it does."""
    return tuple(_config_files(host, *_flags(host, find(host))))


def command_line(host: Host, pid: int) -> bytes:
    """The kubelet's /proc/PID/cmdline with only the flags that are read here. Raises OSError."""
    return "\0".join(["kubelet", *kubelet_config.known_flags(_arguments(host, pid)), ""]).encode()


def _arguments(host: Host, pid: int) -> list[str]:
    return read_text(host.proc / str(pid) / "cmdline").removesuffix("\0").split("\0")[1:]


def _config_files(host: Host, flags: KubeletFlags, unseen: str | None) -> list[Path]:
    """The file and the drop-in files that the flags name, else one in a usual place."""
    if unseen is not None:
        return [path for path in map(host.at, _USUAL_FILES) if may_exist(path)][:1]
    paths = [host.at(flags.config)] if flags.config else []
    if flags.config_dir:
        paths.extend(_drop_ins(host, flags.config_dir))
    return paths


def _drop_ins(host: Host, folder: str) -> list[Path]:
    """Raises Unavailable where one may be and may not be seen: without it the settings are others."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise Unavailable(explain(error, host.name_of(Path(error.filename or folder))))

    found = [
        Path(parent, name)
        for parent, _, names in os.walk(host.at(folder), onerror=refuse)
        for name in names
        if name.endswith(".conf")
    ]
    return sorted(path for path in found if may_exist(path))


def _read(host: Host, path: Path) -> bytes:
    try:
        return read_bytes(path, kubelet_config.LIMITS.size)
    except OSError as error:
        raise Unavailable(explain(error, host.name_of(path))) from None


def _parse(host: Host, path: Path, body: bytes) -> ConfigDocument:
    try:
        return kubelet_config.parse_file(body, host.name_of(path))
    except ParseError as error:
        raise Unavailable(str(error)) from None
