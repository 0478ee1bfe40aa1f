"""Size, start time and memory of the image, for `make image`."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from confinement import image
from numaudit.errors import NumauditError, Unavailable

_CAPABILITIES = ("CAP_BPF", "CAP_PERFMON")
"""As in deploy/base."""
_KERNEL_FILES = ("/sys/fs/cgroup", "/sys/kernel/tracing")
_PORT = 9746
_PATIENCE = 300.0


def _agent() -> Iterator[tuple[str, str]]:
    """How quickly an agent in the image serves, and its memory then."""
    with _started("agent", "--listen", f"127.0.0.1:{_PORT}") as process:
        begun = time.monotonic()
        while not _answers():
            if process.poll() is not None or time.monotonic() > begun + _PATIENCE:
                raise Unavailable("the agent in the image gives no metrics")
            time.sleep(0.02)
        yield "start", f"{time.monotonic() - begun:.1f} s from runc to the first answer with metrics"
        agent, *_ = _descendants(process.pid)
        yield "agent", f"{_kib(agent, 'VmRSS') >> 10} MiB resident"


@contextlib.contextmanager
def _started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    mounts = {Path(path): path for path in _KERNEL_FILES if Path(path).is_dir()}
    with image.bundle([*image.config()["config"]["Entrypoint"], *arguments], mounts, _CAPABILITIES) as start:
        process = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def _answers() -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/metrics", timeout=5).close()
    except OSError:  # an HTTPError, too: 503 before the first tick
        return False
    return True


def _descendants(pid: int) -> list[int]:
    """Children, their children, ... of a process: what runc started, the container's first process first."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _kib(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


def _sizes() -> Iterator[tuple[str, str]]:
    storage = image.rootfs().parent
    buildah = ["buildah", "--root", str(storage / "storage"), "--runroot", str(storage / "run")]
    with tempfile.TemporaryDirectory(dir=storage) as folder:
        subprocess.run([*buildah, "push", "--quiet", "numaudit", f"oci:{folder}/oci"], check=True)
        index = json.loads((Path(folder) / "oci/index.json").read_text())
        blobs = Path(folder) / "oci/blobs/sha256"
        manifest = json.loads((blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_text())
    layers = [layer["size"] / 1e6 for layer in manifest["layers"]]
    used = sum(path.lstat().st_size for path in image.rootfs().rglob("*") if not path.is_dir())
    yield "size", f"{used / 1e6:.0f} MB, {sum(layers):.0f} MB compressed"
    yield "layers", ", ".join(f"{size:.1f} MB" for size in layers)
    yield "to push", f"{' '.join(buildah)} push numaudit docker://REGISTRY/numaudit:TAG"


def main() -> int:
    try:
        labels = image.config()["config"]["Labels"]
        print(f"image: numaudit {labels['org.opencontainers.image.version']} for {platform.machine()}")
        for rows in (_sizes(), _agent()):
            for name, value in rows:
                print(f"{name:8}{value}")
    except NumauditError as problem:
        print(problem, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
