"""Recording of the kubelet's answers for a captured tree: without secrets, and in the form in which it is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import msgspec

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, may_exist, read_bytes
from numaudit.kubelet.parsers import config as kubelet_config
from numaudit.kubelet.parsers import log as kubelet_log
from numaudit.kubelet.parsers.pods import without_secrets
from numaudit.kubelet.sources import presence
from numaudit.kubelet.sources.client import LARGEST_ANSWER, LiveKubelet
from numaudit.kubelet.sources.log_follow import LogSource, live_log
from numaudit.kubelet.sources.process import StartSettings
from numaudit.memorymanager.configuration import FIELDS, ConfigDocument

_SECRET = frozenset({"staticPodURLHeader"})
"""Fields of a KubeletConfiguration that may hold credentials."""

RecordedAnswer = tuple[str, bytes | None]
"""File name, content; None = this one could not be had."""


def record(host: Host, settings: StartSettings | None) -> Iterator[RecordedAnswer]:
    """The files of the folder `numaudit/`. None at all where there is no kubelet; a captured tree gives what it has.

    `settings`: of the running kubelet, which say where it listens; None = not known.
    """
    if not host.is_live:
        names = sorted(files.names(host.answers)) if files.is_folder(host.answers) else []
        found = [host.answers / name for name in names]
        yield from ((file.name, read_bytes(file, LARGEST_ANSWER)) for file in found if files.is_file(file))
        return
    if presence.find(host).pid is None and host.connection.url is None and not may_exist(host.kubelet):
        return
    live = LiveKubelet.of(host, None if settings is None else settings.config.document)
    try:
        yield from ask(live, live_log(host))
    finally:
        live.close()


def ask(live: LiveKubelet, log: LogSource) -> Iterator[RecordedAnswer]:
    """Ask a running kubelet for each file; what it does not answer is None."""
    for name, question in _questions(live, log).items():
        try:
            yield name, question()
        except (Unavailable, ParseError):
            yield name, None


def _questions(live: LiveKubelet, log: LogSource) -> Mapping[str, Callable[[], bytes | None]]:
    return {
        "pods.json": lambda: without_secrets(live.pods()),
        "configz.json": lambda: _configz(live.configz()),
        "kubelet-metrics.txt": live.metrics,
        "podresources-list.pb": live.podresources,
        "podresources-allocatable.pb": live.resources.allocatable,
        "kubelet.log": lambda: _lines(log),
    }


def configuration(name: str, body: bytes) -> bytes:
    """A configuration file as it is, or in JSON without its secrets. Raises ParseError for any other file."""
    document = kubelet_config.parse_file(body, name)
    if document and not FIELDS & document.keys():
        raise ParseError("no field of a KubeletConfiguration is in it")
    return msgspec.json.encode(_public(document)) if _SECRET & document.keys() else body


def _public(config: ConfigDocument) -> ConfigDocument:
    return {key: value for key, value in config.items() if key not in _SECRET}


def _configz(body: bytes) -> bytes:
    return msgspec.json.encode({"kubeletconfig": _public(kubelet_config.parse_configz(body))})


def _lines(log: LogSource) -> bytes:
    """Only the lines that are read back: others may say anything."""
    until = datetime.now().astimezone()
    kept: list[str] = []
    for line in log.read():
        try:
            event = kubelet_log.parse(line.text, until=until, at=line.at)
        except ParseError:
            continue
        if event is not None:
            kept.append(kubelet_log.in_utc(line.text, event))
    return "".join(f"{line}\n" for line in kept).encode()
