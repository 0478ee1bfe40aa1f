"""What the push takes from the host and its environment, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaudit.daemon.senders import machine_id, without_effect
from numaudit.kernel.host import Host


@pytest.mark.parametrize(
    ("content", "found"),
    [("0123456789abcdef" * 2 + "\n", "0123456789abcdef" * 2), ("uninitialized\n", None), ("", None), (None, None)],
)
def test_a_machine_has_an_id_or_none(content: str | None, found: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/machine-id").write_text(content)
    (tmp_path / "proc").mkdir()
    assert machine_id(Host.under(tmp_path)) == found


def test_variables_that_steer_other_exporters_are_named() -> None:
    ours = {"NUMAUDIT_OTLP_ENDPOINT": "", "OTEL_RESOURCE_ATTRIBUTES": "", "SSL_CERT_FILE": "", "PATH": ""}
    theirs = {"OTEL_EXPORTER_OTLP_METRICS_HEADERS": "", "https_proxy": "", "REQUESTS_CA_BUNDLE": ""}
    assert without_effect({**ours, **theirs}) == sorted(theirs)
