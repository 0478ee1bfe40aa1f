"""What a user with some capabilities may measure, by a kernel that knows a kernel.perf_event_paranoid of 3."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
TRACEFS = "/sys/kernel/tracing"
NOBODY = "65534"
TRY = """
import json
from numaudit.doctor.checks import probe_checks
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.session import Session
with Session.open(Host(), [CPU_TIME, PAGE_ALLOC], cgroups=100, nodes=4) as session:
    print(json.dumps([[one.name.removeprefix("bpf "), one.reason] for one in probe_checks(session)]))
"""


@contextlib.contextmanager
def _paranoid_and_an_open_tracefs() -> Iterator[None]:
    before = PARANOID.read_text()
    if not Path(TRACEFS).is_mount():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=True)
    subprocess.run(["mount", "-o", f"remount,gid={NOBODY},mode=0750", TRACEFS], check=True)
    PARANOID.write_text("3")
    try:
        yield
    finally:
        PARANOID.write_text(before)
        subprocess.run(["mount", "-o", "remount,gid=0,mode=0700", TRACEFS], check=True)


def _fared(capabilities: str) -> dict[str, str | None]:
    """Probe -> why it does not run, for a user with these capabilities."""
    kept = "".join(f",+{name}" for name in capabilities.split(",") if name)
    caps = [f"--bounding-set=-all{kept}", f"--inh-caps=-all{kept}", f"--ambient-caps=-all{kept}"]
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command = ["setpriv", *caps, *user, sys.executable, "-c", TRY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("capabilities", "with_tracepoint"), [("bpf,perfmon", "paranoid"), ("bpf,perfmon,sys_admin", None)]
)
def test_what_does_not_run_has_its_true_reason(capabilities: str, with_tracepoint: str | None) -> None:
    with _paranoid_and_an_open_tracefs():
        fared = _fared(capabilities)
    assert (fared["page_alloc"], fared["cpu_time"]) == (with_tracepoint, None)
