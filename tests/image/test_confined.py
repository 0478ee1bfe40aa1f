"""The agent's container with exactly the rights of the manifests, by this host's kernel."""

from __future__ import annotations

import pytest

from confinement.agent import SECCOMP_BEFORE_CAP_BPF, running
from confinement.node import PROFILES, NodeHere
from confinement.tests import (  # noqa: F401 (collected here)
    may,
    neighbour,
    test_a_kill_leaves_nothing_either,
    test_cgroups_are_read_only_where_they_are_of_version_2,
    test_the_restricted_profile_may_not,
    test_what_is_known_of_a_neighbour_is_served_and_the_end_leaves_nothing,
    test_what_the_restricted_profile_may_is_admitted,
)

pytestmark = pytest.mark.root


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_runtime_whose_filter_knows_no_cap_bpf_keeps_the_programs_out_and_the_agent_says_so(node: NodeHere) -> None:
    with running(node.pod(seccomp=SECCOMP_BEFORE_CAP_BPF)) as agent:
        assert agent.get("/metrics")[0] == 200
    old = node.pod(seccomp=SECCOMP_BEFORE_CAP_BPF)
    assert node.tried(old)["BPF map"] == "EPERM"
    assert node.probes(old)["cpu_time"] == "forbidden"
    assert node.probes(node.pod("privileged", seccomp=SECCOMP_BEFORE_CAP_BPF))["cpu_time"] is None


def test_keys_of_the_kubelet_are_hidden_by_a_component(node: NodeHere) -> None:
    found = node.tried(node.pod("hide-keys"))
    assert (found["kubelet's keys"], found["kubelet's checkpoint"]) == ("ENOENT", "yes")
