"""The agent's image for the CPUs of this guest: by its kernel it starts, says its version and serves metrics."""

from __future__ import annotations

import os
import platform
import subprocess
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import numaudit
from confinement import image
from confinement.agent import CHECKOUT
from processes.agent_process import eventually

pytestmark = [pytest.mark.arm64, pytest.mark.one_kernel]

FOLDERS = {"x86_64": ".cache/image", "aarch64": ".cache/image/arm64"}
KERNEL_FILES = ("/sys/fs/cgroup", "/sys/kernel/tracing")
PORT = 9746
PATIENCE = 900.0
"""Seconds for what takes one on an idle machine."""


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The unpacked root that `deploy/image/build.sh` left on the host."""
    found = CHECKOUT / FOLDERS[platform.machine()] / "rootfs"
    if not found.is_dir():
        # That for other CPUs than the host's takes half an hour to build, emulated, so nobody builds it on the way.
        assert "CI" not in os.environ or platform.machine() != "x86_64", "no image"
        pytest.skip(f"no image in {found}: deploy/image/build.sh [arm64] builds it")
    monkeypatch.setattr(image, "rootfs", lambda: found)
    return found


def test_it_says_its_version_and_is_for_these_cpus() -> None:
    done = image.run("--version")
    assert done.stdout.strip() == f"numaudit, version {numaudit.__version__}", done.stderr
    assert image.config()["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def test_its_agent_serves_the_metrics_of_this_kernel() -> None:
    mounts = {Path(path): path for path in KERNEL_FILES}
    command = [*image.config()["config"]["Entrypoint"], "agent", "--listen", f"127.0.0.1:{PORT}"]
    with image.bundle(command, mounts, ("CAP_BPF", "CAP_PERFMON")) as start:
        process = subprocess.Popen(start)
        try:
            assert eventually(lambda: _metrics() is not None or process.poll() is not None, PATIENCE)
            assert process.poll() is None
            assert eventually(lambda: "numaudit_bpf_events_total" in (_metrics() or {}), PATIENCE)
            found = _metrics() or {}
        finally:
            process.terminate()
            process.wait()
    assert len(found["numaudit_node_memory_total_bytes"]) == 4
    (info,) = found["numaudit_build_info"]
    assert info["version"] == numaudit.__version__


def _metrics() -> dict[str, list[dict[str, str]]] | None:
    """Name -> the labels of its series; None before the first tick."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
    except OSError:  # an HTTPError, too: 503 before the first tick
        return None
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {name: [one.labels for one in samples if one.name == name] for name in {one.name for one in samples}}
