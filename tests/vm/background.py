"""The guests of a test run in a process of their own (`boots.py`), so that host tests and guests share no thread.

`make test` starts them before anything else, and each pytest that it runs finds them under way:

    python tests/vm/background.py COMMAND...
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import boots
import guest
import machines
from debian import tool
from inside_tests import by_kernel
from numaudit.errors import Unavailable

UNDER_WAY = "GUESTS_UNDER_WAY"
"""`PID FOLDER` of guests that somebody else has started: a pytest waits for them instead of booting its own."""
_PLAN = "plan.json"
_LOOK_EVERY = 0.2
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Background:
    """Guests that run."""

    plans: Mapping[str, boots.Plan]
    """By kernel."""
    pid: int
    """Of the process that runs them."""
    folder: Path
    process: subprocess.Popen[bytes] | None
    """None = somebody else's."""

    @classmethod
    def start(cls, tests: Mapping[str, Sequence[str]]) -> Background:
        """`tests`: kernel's name -> its tests. The slowest kernel is booted first."""
        folder = Path(tempfile.mkdtemp(prefix="numaudit-guests-"))
        slowest_first = sorted(tests, key=lambda kernel: not kernel.startswith("arm64"))
        plans = {kernel: boots.Plan(kernel, folder / kernel, tests[kernel]) for kernel in slowest_first}
        boots.write(plans.values(), folder / _PLAN)
        command = [tool("setpriv"), "--pdeathsig", "KILL", sys.executable, boots.__file__, str(folder / _PLAN)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return cls(plans, process.pid, folder, process)

    @classmethod
    def under_way(cls, tests: Mapping[str, Sequence[str]]) -> Background | None:
        """What somebody else has started, if it includes these tests."""
        if UNDER_WAY not in os.environ:
            return None
        pid, _, folder = os.environ[UNDER_WAY].partition(" ")
        plans = {plan.kernel: plan for plan in boots.read(Path(folder) / _PLAN)}
        has_all = all(kernel in plans and {*names} <= {*plans[kernel].tests} for kernel, names in tests.items())
        return cls(plans, int(pid), Path(folder), None) if has_all else None

    def ended(self, kernel: str) -> boots.Plan:
        """Waits until all boots of a kernel have ended."""
        plan = self.plans[kernel]
        with contextlib.ExitStack() as stack:
            descriptor = None
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(self.pid)
                stack.callback(os.close, descriptor)
            while not plan.ended.exists():
                has_ended = descriptor is None or select.select([descriptor], [], [], _LOOK_EVERY)[0]
                if has_ended and not plan.ended.exists():
                    pytest.fail(f"boots.py ended before the guests of {kernel}", pytrace=False)
        return plan

    def stop(self) -> None:
        """What still runs ends with its parent."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)  # a guest that is being killed may still write


def can_boot(kernel: str) -> bool:
    """Where it cannot, the tests' fixture says why."""
    with contextlib.suppress(Unavailable):
        guest.require_tools(machines.find(kernel).kernel)
        return True
    return False


def main(command: Sequence[str]) -> int:
    """Run a command beside all guests of `make test`; its exit status."""
    background = Background.start({kernel: tests for kernel, tests in by_kernel().items() if can_boot(kernel)})
    try:
        under_way = {UNDER_WAY: f"{background.pid} {background.folder}"}
        return subprocess.run(command, env={**os.environ, **under_way}, check=False).returncode
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        background.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
