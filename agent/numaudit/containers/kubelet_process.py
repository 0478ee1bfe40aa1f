"""The kubelet's process on this host, and the configuration it was started with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from numaudit.containers import kubelet_config
from numaudit.containers.kubelet_config import Document, Flags
from numaudit.errors import ParseError, Unavailable
from numaudit.intent import KubeletConfig
from numaudit.kernel.host import Host, read_bytes, read_text

_USUAL_FILES = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubelet/config.json")
"""kubeadm, hand-made set-ups, and a cloud's images."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration, and what of it could not be seen."""

    config: KubeletConfig
    root_dir: str | None = None
    """`--root-dir`; None = not given."""
    reason: str | None = None


def find(host: Host) -> int | None:
    """The process id of the kubelet, by its name. None = none is visible."""
    for folder in host.proc.glob("[0-9]*"):
        if is_kubelet(host, int(folder.name)):
            return int(folder.name)
    return None


def is_kubelet(host: Host, pid: int) -> bool:
    try:
        return read_bytes(host.proc / str(pid) / "comm").strip() == b"kubelet"
    except OSError:
        return False


def read_settings(host: Host, pid: int | None) -> Settings:
    """From the process's flags and the files they name, or from a file in a usual place.

    Raises Unavailable when there is neither, or a file cannot be read or is not understood.
    """
    flags, unseen = _flags(host, pid)
    paths = [host.at(flags.config)] if flags.config else []
    if unseen is not None:
        paths = [path for path in map(host.at, _USUAL_FILES) if path.exists()][:1]
        if not paths:
            raise Unavailable(f"{unseen}, and there is no configuration file in a usual place")
        unseen = f"flags are not known: {unseen}; only {host.name_of(paths[0])} was read"
    if flags.config_dir:
        paths.extend(_drop_ins(host.at(flags.config_dir)))
    merged = kubelet_config.merge([_read(host, path) for path in paths], flags.fields)
    return Settings(kubelet_config.settle(merged, flags.fields, "file"), flags.root_dir, unseen)


def _flags(host: Host, pid: int | None) -> tuple[Flags, str | None]:
    """The flags, or why they cannot be seen."""
    if pid is None:
        return Flags(), "no kubelet process is visible"
    path = host.proc / str(pid) / "cmdline"
    try:
        text = read_text(path)
    except OSError as error:
        return Flags(), f"cannot read {host.name_of(path)}: {error.strerror or error}"
    try:
        return kubelet_config.read_flags(text.removesuffix("\0").split("\0")[1:]), None
    except ParseError as error:
        raise Unavailable(f"the kubelet's command line is not understood: {error}") from None


def _drop_ins(folder: Path) -> Iterator[Path]:
    """All *.conf files in and below the folder, in the order of their paths."""
    yield from sorted(path for path in folder.rglob("*.conf") if path.is_file())


def _read(host: Host, path: Path) -> Document:
    try:
        return kubelet_config.parse_file(read_text(path))
    except OSError as error:
        raise Unavailable(f"cannot read {host.name_of(path)}: {error.strerror or error}") from None
    except ParseError as error:
        raise Unavailable(f"{host.name_of(path)}: {error}") from None
