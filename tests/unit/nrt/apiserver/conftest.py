"""One API server for all tests of a module; each begins with an empty cluster."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from clusters.api_server import ApiServer as Server
from clusters.api_server import Cluster, Right, serving
from clusters.api_topologies import RESOURCE, Topologies

collect_ignore_glob = [] if find_spec("lightkube") else ["test_*.py"]
"""The client's library is an extra; `make check` installs it."""


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with serving(Cluster()) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    cluster = shared_server.cluster
    cluster.topologies, cluster.faults, cluster.used = Topologies(), [], []
    cluster.rights = {"admin": None, "agent": {Right("get", RESOURCE), Right("patch", RESOURCE)}}
    return shared_server


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Path:
    """With the rights of an agent that owns nothing but its annotations."""
    return server.kubeconfig(tmp_path, token="agent")
