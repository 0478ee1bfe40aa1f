"""Host and time of the values: this host now, or a captured one as its capture says."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import InputError
from numaudit.kernel.host import Host, read_bytes, read_text

NOTE = "capture.json"
"""In a captured tree: whose it is, and of when. A tree that something else made has none."""
_NODE_VARIABLES = ("K8S_NODE_NAME", "NODE_NAME")


class _Note(Struct, rename="camel"):
    host: str | None = None
    taken_at: Timestamp | None = None


def origin_of(host: Host, measured_at: float | None = None) -> Origin:
    """The live host now, or when it was measured; a captured one when it was captured.

    Raises InputError when a capture has a note that is not understood.
    """
    if host.is_live:
        at = time.time() if measured_at is None else measured_at
        name = name_of_mounted(host) if host.is_mounted else host_name()
        return Origin(node_name(os.environ) or name, Timestamp(at))
    note = host.root / NOTE
    try:
        found = msgspec.json.decode(read_bytes(note), type=_Note, dec_hook=_time)
    except FileNotFoundError:
        return Origin(None, None)
    except OSError as error:
        raise InputError(f"--root: cannot read {note}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"--root: {note} is damaged: {error}; capture again, or remove it") from None
    return Origin(found.host, found.taken_at)


def kernel_of(host: Host) -> str | None:
    """The release of its kernel, such as 6.12.117; None = it is not known. Source: /proc/version."""
    try:
        words = read_text(host.proc / "version").split()
    except OSError:
        return None
    return words[2] if len(words) > 2 else None


def host_name() -> str | None:
    """The name that this host was given; None = none, for which the kernel shows `(none)` (init/Kconfig)."""
    name = os.uname().nodename
    return None if name in ("", "(none)") else name


def name_of_mounted(host: Host) -> str | None:
    """The name by its /etc/hostname, since a container has a name of its own; None = it has none."""
    try:
        return read_text(host.at("/etc/hostname")).strip() or None
    except OSError:
        return None


def node_name(environment: Mapping[str, str]) -> str | None:
    """Kubernetes's name of this node, when a manifest passes it on."""
    return next((environment[name] for name in _NODE_VARIABLES if environment.get(name)), None)


def _time(_type: type, value: object) -> Timestamp:
    return Timestamp.parse(str(value))
