"""Label values come from sets that no tenant and no path can make larger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numaudit.doctor.checks import examine
from numaudit.exporters.facts import Feature
from numaudit.kernel.host import Host
from numaudit.probes.session import Session

_WORD = re.compile(r"[a-z][a-z0-9-]*")


@pytest.mark.parametrize("host", ["kubernetes-four-nodes", "cgroup-v1", "misaligned-node"])
def test_the_reason_of_a_feature_is_a_word(fixtures: Path, host: str) -> None:
    features = [Feature.of(one) for one in examine(Host.under(fixtures / host), Session({}))]
    reasons = {one.name: one.reason for one in features if one.reason is not None}
    assert reasons
    assert all(_WORD.fullmatch(reason) for reason in reasons.values()), reasons
    assert all((one.reason is None) <= one.enabled for one in features)
