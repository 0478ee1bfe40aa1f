"""The boots of one test run: a process of its own, which leaves a file for each kernel whose guests have ended.

A few guests run at once, each on one CPU of this host. When each kernel has had its guest, the one with the most left
gets another one, and they share what is left (`results.py`). A guest that dies fails the test that it was at; what it
had not come to runs in another boot.

When all guests of a kernel have ended, the few tests that failed run once more in a fresh guest, where nothing of other
tests is left and less is going on: a crowded host fails nothing. One that passes there has passed, and the summary
shows it with its first failure: what appears there again and again has a defect of its own.

    python tests/vm/boots.py PLAN.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock

import pytest

import machines
import results
from debian import CHECKOUT
from guest import Completed, GuestDied, Job, run
from inside_tests import INSIDE, NO_PLUGINS, PYTEST, seconds_of
from results import BAD, CLAIMS_VARIABLE, FILE_VARIABLE, Result

HERE = Path(__file__).parent
TIMEOUT = 3600
"""Seconds for all tests of one boot; an idle host needs 300."""
SHARING = 3
"""Guests that share the tests of one kernel, at most."""
BOOTS = SHARING + 2
"""Of one kernel at most: two for what dead ones have left."""
WORTH_A_BOOT = 60
"""Seconds of tests that the guests under way leave to another; it takes half of that to boot and to collect them."""
AGAIN_AT_MOST = 8
"""Tests that failed and run once more. When more fail, it is not the host."""
AGAIN = "again"
"""The boot in which they do."""
RESULTS = "results.jsonl"
"""Of one boot, in its folder."""
NEEDS_IMAGE = ("test_confined_guest", "test_image_here")
"""Modules whose tests run the agent's image: this host's is built before the first of them boots."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one kernel is to run."""

    kernel: str
    folder: Path
    """Shared by all its guests."""
    tests: Sequence[str]

    @property
    def claims(self) -> Path:
        """A folder for each module that a guest has claimed."""
        return self.folder / "claims"

    @property
    def ended(self) -> Path:
        """Written at the end: how each boot ended."""
        return self.folder / "ended.json"

    def results(self) -> dict[str, Result]:
        """By test, so far: what those that failed brought when they ran again counts."""
        again = {name: one for name, one in self.of_boot(AGAIN).items() if one.outcome != "skipped"}
        return {**self.first_results(), **again}

    def first_results(self) -> dict[str, Result]:
        """By test, so far; of a test that two boots were at, the worse one counts."""
        found: dict[str, Result] = {}
        for folder in sorted(self.folder.glob("boot-*")):
            for name, result in self.of_boot(folder.name).items():
                if name not in found or result.outcome in BAD:
                    found[name] = result
        return found

    def passed_again(self) -> dict[str, Result]:
        """The failures of tests that passed when they ran once more."""
        again = self.of_boot(AGAIN)
        failures = {name: one for name, one in self.first_results().items() if one.outcome in BAD}
        return {name: one for name, one in failures.items() if name in again and again[name].outcome == "passed"}

    def of_boot(self, boot: str) -> dict[str, Result]:
        """What one guest has brought."""
        file = self.folder / boot / RESULTS
        lines = file.read_text().splitlines() if file.exists() else []
        return {name.removeprefix(f"{INSIDE}/"): result for name, result in results.parse(lines).items()}

    def endings(self) -> list[str]:
        """How each boot ended, in one line each, and what it printed that is worth showing; after the end."""
        texts: list[str] = json.loads(self.ended.read_text())
        return texts


def write(plans: Iterable[Plan], file: Path) -> None:
    """The argument of this program."""
    file.write_text(json.dumps([{**asdict(plan), "folder": str(plan.folder)} for plan in plans]))


def read(file: Path) -> list[Plan]:
    return [Plan(one["kernel"], Path(one["folder"]), one["tests"]) for one in json.loads(file.read_text())]


def at_once() -> int:
    """Guests that run at the same time: each takes a CPU, unless it waits, and 2 GiB of memory."""
    return int(os.environ.get("GUESTS_AT_ONCE", "0")) or min(4, 1 + (os.cpu_count() or 1))


def image() -> None:
    """Build the agent's image, or say why there is none: then the tests in the guests do so, too."""
    done = subprocess.run([CHECKOUT / "deploy/image/build.sh"], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        print(f"boots: no image, deploy/image/build.sh ended with {done.returncode}", file=sys.stderr)


@dataclass(slots=True)
class Kernel:
    """The boots of one kernel."""

    plan: Plan
    image: Future[None] | None
    endings: list[str] = field(default_factory=list)
    _boots: int = 0
    _under_way: int = 0
    _has_died: bool = False
    _has_ended: bool = False
    _lock: Lock = field(default_factory=Lock)

    def boot(self) -> None:
        """One guest, for what no other one has claimed. The last one also sees to what dead ones have left."""
        with self._lock:
            if self._has_ended or (self._boots and not self._unclaimed()):
                return
            self._under_way += 1
            number = self._next()
        try:
            self._run(f"boot-{number}", self.plan.tests, self.plan.claims)
            while True:
                with self._lock:
                    left = self._left()
                    is_last = self._under_way == 1
                    again = is_last and self._has_died and left and self._boots < BOOTS
                    if not again:
                        self._under_way -= 1
                        self._has_ended = is_last
                        break
                    self._has_died = False
                    number = self._next()
                (claims := self.plan.folder / f"claims-{number}").mkdir()
                self._run(f"boot-{number}", left, claims)
        except BaseException:
            with self._lock:
                self.endings.append(f"guest {self.plan.kernel}: {traceback.format_exc()}")
                self._under_way -= 1
                self._has_ended = is_last = self._under_way == 0
        if is_last:
            self._end()

    def _end(self) -> None:
        """Of the last guest: nobody else changes anything any more."""
        try:
            self._run_failed_ones_again()
        except BaseException:
            self.endings.append(f"guest {self.plan.kernel}: {traceback.format_exc()}")
        whole = self.plan.ended.with_suffix(".new")
        whole.write_text(json.dumps(self.endings))
        whole.rename(self.plan.ended)

    def _next(self) -> int:
        self._boots += 1
        return self._boots

    def for_another(self) -> int:
        """Seconds of tests that another guest would find: each that runs claims one more module, the longest first."""
        with self._lock:
            if self._has_ended or self._boots >= SHARING:
                return 0
            return sum(sorted(map(seconds_of, self._unclaimed()), reverse=True)[self._under_way :])

    def _unclaimed(self) -> set[str]:
        claimed = {path.name for path in self.plan.claims.iterdir()}
        return {_module(test) for test in self.plan.tests} - claimed

    def _left(self) -> list[str]:
        """What has not even begun."""
        begun = self.plan.results()
        return [test for test in self.plan.tests if test not in begun]

    def _run_failed_ones_again(self) -> None:
        failed = [name for name, result in self.plan.first_results().items() if result.outcome in BAD]
        if not failed or len(failed) > AGAIN_AT_MOST:
            return
        (claims := self.plan.folder / "claims-again").mkdir()
        self._run(AGAIN, failed, claims)
        self.endings += [
            f"passed only when it ran once more: {self.plan.kernel}-{name}\n{failure.text}"
            for name, failure in self.plan.passed_again().items()
        ]

    def _run(self, boot: str, tests: Sequence[str], claims: Path) -> None:
        folder = self.plan.folder / boot
        folder.mkdir()
        (folder / RESULTS).touch()
        if self.image and any(_module(test) in NEEDS_IMAGE for test in tests):
            self.image.result()
        environment = {
            # Whatever is installed in the virtual environment, this checkout is tested.
            "PYTHONPATH": f"{HERE}:{CHECKOUT / 'agent'}",
            FILE_VARIABLE: str(folder / RESULTS),
            CLAIMS_VARIABLE: str(claims),
            **NO_PLUGINS,
        }
        command = [*PYTEST, "-p", "results", *(f"{INSIDE}/{test}" for test in tests)]
        guest = machines.find(self.plan.kernel)
        try:
            done = run(guest, Job(command, folder, environment, TIMEOUT, shared=self.plan.folder))
            ran = len(self.plan.of_boot(boot))
            ending = f"{ran} tests, {done.seconds:.1f} s from power-on to power-off, exit status {done.exit_code}"
            output = _worth_showing(done)
        except GuestDied as death:
            ending, _, output = str(death).partition("\n")
            self._has_died = True
        self.endings.append(f"guest {self.plan.kernel} ({guest.kernel.release}), {boot}: {ending}\n{output}".rstrip())


def share(kernels: Sequence[Kernel]) -> None:
    """Another guest for the kernel that has the most for one, if that is worth it."""
    slowest = max(kernels, key=Kernel.for_another)
    if slowest.for_another() >= WORTH_A_BOOT:
        slowest.boot()


def _module(test: str) -> str:
    return test.partition(".py::")[0]


def _worth_showing(done: Completed) -> str:
    """Boots that failed, and what a pytest printed that could not run its tests."""
    fine = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    boots = "".join(f"booted again: {death}\n" for death in done.failed_boots)
    return boots if done.exit_code in fine else boots + done.stdout + done.stderr


def main(file: Path) -> int:
    plans = read(file)
    for plan in plans:
        plan.claims.mkdir(parents=True)
    with ThreadPoolExecutor(at_once()) as pool:
        needs_image = any(_module(test) in NEEDS_IMAGE for plan in plans for test in plan.tests)
        building = pool.submit(image) if needs_image else None
        kernels = [Kernel(plan, building) for plan in plans]
        first = [pool.submit(one.boot) for one in kernels]
        more = [pool.submit(share, kernels) for _ in range((SHARING - 1) * len(kernels))]
        for boot in (*first, *more):
            boot.result()  # raises what went wrong beside the guests
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
