"""The agent's container with exactly the rights of the manifests, by a guest's kernel, with cgroup v2 and kprobes."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator

import pytest

from confinement.agent import CHECKOUT, run_inside
from confinement.node import LOADED_WITHIN, NodeHere, node_here
from confinement.tests import (  # noqa: F401 (collected here)
    may,
    neighbour,
    test_a_kill_leaves_nothing_either,
    test_cgroups_are_read_only_where_they_are_of_version_2,
    test_the_restricted_profile_may_not,
    test_what_is_known_of_a_neighbour_is_served_and_the_end_leaves_nothing,
    test_what_the_restricted_profile_may_is_admitted,
)

ROOT = CHECKOUT / ".cache/image/rootfs"


@pytest.fixture(scope="module")
def node() -> Iterator[NodeHere]:
    if platform.machine() != "x86_64":
        pytest.skip("the image is for x86_64")
    if not ROOT.is_dir():
        assert "CI" not in os.environ, "no image"
        pytest.skip(f"no image in {ROOT}: deploy/image/build.sh builds it")
    with node_here(ROOT) as found:
        yield found


_DOCTOR = """
import json, subprocess
done = subprocess.run(["numaudit", "doctor", "-o", "json"], stdout=subprocess.PIPE)
print(json.dumps([done.returncode, json.loads(done.stdout)["checks"]]))
"""
_OF_ANOTHER_NODE = {"memory_manager_state", "podresources"}
"""The kubelet's folder here is made up: its checkpoint is of another machine, and nobody listens."""


@pytest.mark.one_kernel
def test_doctor_finds_nothing_to_mend_in_the_restricted_pod(node: NodeHere) -> None:
    code, checks = json.loads(run_inside(node.pod(), ["python3", "-c", _DOCTOR], LOADED_WITHIN))
    failing = {one["name"]: one["detail"] for one in checks if one["state"] == "missing"}
    assert failing.keys() <= _OF_ANOTHER_NODE, failing
    assert code == (1 if failing else 0)


@pytest.fixture
def profile() -> str:
    """The others differ in rights alone, which this host shows."""
    return "restricted"
