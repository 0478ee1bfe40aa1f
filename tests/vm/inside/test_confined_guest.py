"""The agent's container with exactly the rights of the manifests, by a guest's kernel, with cgroup v2 and kprobes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import pytest

from confined import CHECKOUT
from confined_node import NodeHere, node_here
from confined_tests import (  # noqa: F401 (collected here)
    may,
    neighbour,
    test_a_kill_leaves_nothing_either,
    test_cgroups_are_read_only_where_they_are_of_version_2,
    test_each_capability_brings_what_the_page_says,
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


@pytest.fixture
def profile() -> str:
    """The others differ in rights alone, which the table of capabilities has."""
    return "restricted"
