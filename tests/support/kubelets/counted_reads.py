"""Counts what this process reads of a kubelet: opens of its files, requests of its pages, calls of PodResources."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import yaml

from hosts.tree_copies import lent
from kubelets.http import replies, serving
from kubelets.podresources_server import serving as podresources_serving

LIST = "/v1.PodResourcesLister/List"


@dataclass
class CountedKubelet:
    """A recorded one that answers again, on a node that a test lets pass for the live one."""

    root: Path
    log: Path
    url: str = ""
    reads: Counter[str] = field(default_factory=Counter)
    """Name of a file, path of a page or `podresources` -> how often."""

    def file(self, kind: str) -> Path:
        return self.root / "var/lib/kubelet" / kind


@contextmanager
def counted_kubelet(captured: Path) -> Iterator[CountedKubelet]:
    """The kubelet of a captured tree, in a copy."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = stack.enter_context(lent(captured))
        answers = (root / "numaudit").rename(folder / "answers")
        one = CountedKubelet(root, answers / "kubelet.log")
        (configuration,) = (root / "etc/kubernetes").iterdir()
        bodies = {
            "/pods": (answers / "pods.json").read_bytes(),
            "/metrics": (answers / "kubelet-metrics.txt").read_bytes(),
            "/configz": json.dumps({"kubeletconfig": yaml.safe_load(configuration.read_text())}).encode(),
        }
        listed = (answers / "podresources-list.pb").read_bytes()

        def page(request: BaseHTTPRequestHandler) -> None:
            one.reads[request.path] += 1
            replies(bodies[request.path])(request)

        def resources() -> bytes:
            one.reads["podresources"] += 1
            return listed

        socket = root / "var/lib/kubelet/pod-resources/kubelet.sock"
        socket.parent.mkdir()
        stack.enter_context(podresources_serving(socket, {LIST: resources}))
        one.url = stack.enter_context(serving(page))
        stack.enter_context(_opens_counted(one))
        yield one


_listeners: list[Callable[[str], None]] = []


@cache
def _listen() -> None:
    """An audit hook stays until the process ends, so there is one for all tests."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and _listeners and isinstance(arguments[0], str | bytes | os.PathLike):
            for listener in _listeners:
                listener(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)


@contextmanager
def _opens_counted(one: CountedKubelet) -> Iterator[None]:
    folders = tuple(f"{one.root}/{name}/" for name in ("var/lib/kubelet", "etc/kubernetes"))

    def listener(path: str) -> None:
        if path.startswith(folders) or path == str(one.log):
            one.reads[Path(path).name] += 1

    _listen()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
