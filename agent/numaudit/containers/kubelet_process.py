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
    flags, reason = Flags(), None
    if pid is not None:
        flags = _flags(host, pid)
    main = host.at(flags.config) if flags.config else None
    if pid is None:
        main = next((host.at(path) for path in _USUAL_FILES if host.at(path).exists()), None)
        if main is None:
            raise Unavailable("no kubelet process and no configuration file in a usual place is visible")
        reason = f"flags are not known: no kubelet process is visible; only {main} was read"
    files = [_read(path) for path in ([main] if main is not None else [])]
    if flags.config_dir:
        files.extend(_read(path) for path in _drop_ins(host.at(flags.config_dir)))
    config = kubelet_config.settle(kubelet_config.merge(files, flags.fields), flags.fields, "file")
    return Settings(config, flags.root_dir, reason)


def _flags(host: Host, pid: int) -> Flags:
    path = host.proc / str(pid) / "cmdline"
    try:
        arguments = read_text(path).split("\0")[1:]
        return kubelet_config.read_flags(arguments)
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror or error}") from None
    except ParseError as error:
        raise Unavailable(f"the kubelet's command line is not understood: {error}") from None


def _drop_ins(folder: Path) -> Iterator[Path]:
    """All *.conf files in and below the folder, in the order of their paths."""
    yield from sorted(path for path in folder.rglob("*.conf") if path.is_file())


def _read(path: Path) -> Document:
    try:
        return kubelet_config.parse_file(read_text(path))
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror or error}") from None
    except ParseError as error:
        raise Unavailable(f"{path}: {error}") from None
