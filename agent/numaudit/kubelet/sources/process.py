"""The kubelet's process on this host, and the configuration it was started with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import ParseError, Unavailable
from numaudit.intent.kubelet import KubeletConfig
from numaudit.kernel import files
from numaudit.kernel.host import Host, explain, may_exist, read_bytes, read_text
from numaudit.kubelet.parsers import config as kubelet_config
from numaudit.kubelet.sources.presence import KubeletProcess, find, is_there
from numaudit.memorymanager.configuration import ConfigDocument, KubeletFlags, known_flags, read_flags

USUAL_FILES = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubelet/config.json")
"""kubeadm, hand-made set-ups, and a cloud's images."""
_OF_THE_KERNEL = ("/proc", "/sys", "/dev")
"""No file of a kubelet's is below these, and /proc/PID/root leads into any container."""


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
    process: KubeletProcess = KubeletProcess()
    settings: StartSettings | None = None
    problem: str | None = None
    """Reason why the settings are not known."""


def read_settings(host: Host, process: KubeletProcess) -> StartSettings:
    """From the process's flags and the files they name, or from a file in a usual place.

    What is not believed to be the kubelet names no file and no setting.

    Raises Unavailable when there is neither, or a file cannot be read or is not understood.
    """
    flags, unseen = _flags(host, process)
    paths = _config_files(host, flags, unseen)
    if unseen is not None:
        if not paths:
            raise Unavailable(f"{unseen}, and there is no configuration file in a usual place")
        unseen = f"flags are not known: {unseen}; only {host.name_of(paths[0])} was read"
    bodies = {path: _read(host, path) for path in paths}
    merged = kubelet_config.merge([_parse(host, path, body) for path, body in bodies.items()], flags.fields)
    return StartSettings(kubelet_config.settle(merged, flags.fields, "file"), flags.root_dir, unseen, bodies)


def locate(host: Host) -> LocatedKubelet:
    """Find the kubelet of a host, and read how it was started."""
    process = find(host)
    try:
        settings = read_settings(host, process)
    except Unavailable as reason:
        return LocatedKubelet(host, process, problem=str(reason))
    if settings.root_dir is not None:
        host = replace(host, kubelet_root=settings.root_dir)
    return LocatedKubelet(host, process, settings)


def _flags(host: Host, process: KubeletProcess) -> tuple[KubeletFlags, str | None]:
    """The flags, or why they cannot be seen. Raises Unavailable."""
    if process.pid is None:
        return KubeletFlags(), process.unseen
    try:
        arguments = _arguments(host, process.pid)
        if not is_there(host, process):
            return KubeletFlags(), "the kubelet's process has just ended"
        flags = read_flags(arguments)
    except OSError as error:
        return KubeletFlags(), explain(error, f"/proc/{process.pid}/cmdline")
    except ParseError as error:
        raise Unavailable(f"cannot parse the kubelet's command line: {error}") from None
    for flag, path in (("--config", flags.config), ("--config-dir", flags.config_dir), ("--root-dir", flags.root_dir)):
        _refuse(flag, path)
    return flags, None


def _refuse(flag: str, path: str | None) -> None:
    """Raises Unavailable for a path that no kubelet has. The kubelet itself cleans paths like this (filepath.Abs)."""
    whole = os.path.normpath(f"/{path or ''}").replace("//", "/")
    if f"{whole}/".startswith(tuple(f"{one}/" for one in _OF_THE_KERNEL)):
        raise Unavailable(
            f"the kubelet's command line has {flag}={path}, which is not followed: a path below "
            f"{', '.join(_OF_THE_KERNEL)} may lead anywhere"
        )


def config_files(host: Host) -> tuple[Path, ...]:
    """The configuration files that `read_settings` reads. Raises Unavailable as it does."""
    return tuple(_config_files(host, *_flags(host, find(host))))


def command_line(host: Host, pid: int) -> bytes:
    """The kubelet's /proc/PID/cmdline with only the flags that are read here. Raises OSError."""
    return "\0".join(["kubelet", *known_flags(_arguments(host, pid)), ""]).encode()


def _arguments(host: Host, pid: int) -> list[str]:
    return read_text(host.proc / str(pid) / "cmdline").removesuffix("\0").split("\0")[1:]


def _config_files(host: Host, flags: KubeletFlags, unseen: str | None) -> list[Path]:
    """The file and the drop-in files that the flags name, else one in a usual place."""
    if unseen is not None:
        return [path for path in map(host.at, USUAL_FILES) if may_exist(path)][:1]
    paths = [host.at(flags.config)] if flags.config else []
    if flags.config_dir:
        paths.extend(_drop_ins(host, flags.config_dir))
    return paths


def _drop_ins(host: Host, folder: str) -> list[Path]:
    """Source: cmd/kubelet/app/server.go (mergeKubeletConfigurations): every *.conf below it, in the order of paths.

    Raises Unavailable where one may be and may not be seen: without it the settings are others.
    """
    found = _walk(host, host.at(folder))
    return sorted(path for path, is_folder in found if not is_folder and path.suffix == ".conf" and may_exist(path))


def _walk(host: Host, top: Path) -> Iterator[tuple[Path, bool]]:
    """Everything in a folder and below, and whether it is a folder; links are not followed."""
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            for name in files.names(folder):
                is_folder = stat.S_ISDIR(files.status(folder / name, follows=False).st_mode)
                if is_folder:
                    folders.append(folder / name)
                yield folder / name, is_folder
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Unavailable(explain(error, host.name_of(folder))) from None


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
