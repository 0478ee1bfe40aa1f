"""Record what an agent with all probes exports in the guest: `python tests/vm/record_scrapes.py`, as root.

Writes tests/fixtures/guest-scrapes.json.xz, for tests that need series which a captured tree does not have.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from guest import Guest, Job, run
from kernels import find
from monitoring import recorded_scrapes
from truth import MODULES

SCRAPES, SECONDS = 36, 10
SCRAPE = {"instance": "10.0.0.7:9746", "job": "numaudit"}
"""What Prometheus adds. There is no `nodename`, as where nothing sets it."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="numaudit-scrapes-") as name:
        folder = Path(name)
        (folder / "scrapes").mkdir()
        program = str(Path(__file__).parent / "inside/scraped_agent.py")
        job = Job(
            [sys.executable, program, str(folder / "scrapes"), str(SCRAPES), str(SECONDS)],
            folder,
            {"PYTHONPATH": MODULES},
            timeout=4 * SCRAPES * SECONDS + 600,
        )
        done = run(Guest(find("6.12")), job)
        if done.exit_code:
            sys.stderr.write(done.stderr)
        else:
            pack(folder / "scrapes")
    return done.exit_code


def pack(folder: Path) -> None:
    """The scrapes of a folder, each in a file by its time."""
    scrapes = {
        float(file.stem): recorded_scrapes.samples(file.read_text(), **SCRAPE) for file in sorted(folder.glob("*.txt"))
    }
    recorded_scrapes.write(recorded_scrapes.recording(scrapes), recorded_scrapes.GUEST)


if __name__ == "__main__":
    sys.exit(main())
