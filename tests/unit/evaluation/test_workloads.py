"""Workloads by the names of their pods."""

from __future__ import annotations

import pytest

from numaudit.evaluation.hint_outcomes import workload_of


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("web-7d4b9c6f5-x2x9z", "web"),
        ("my-web-app-7d4b9c6f57-x2x9z", "my-web-app"),
        ("fluentd-zx8k2", "fluentd"),
        ("db-0", "db"),
        ("db-12", "db"),
        ("gu-small", "gu-small"),
        ("web", "web"),
        ("etcd-node-a", "etcd-node-a"),
    ],
)
def test_a_pod_is_of_the_workload_that_its_name_begins_with(pod: str, workload: str) -> None:
    assert workload_of(pod) == workload
