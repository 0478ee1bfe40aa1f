"""The agent's image, built of this checkout and loaded into the nodes by a tool that is here: no registry is needed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kubectl import Refused

TOP = Path(__file__).resolve().parents[2]
NAME = "docker.io/library/numaudit:e2e"
LOADERS: Mapping[str, Sequence[str]] = {
    "ctr": ("ctr", "--namespace=k8s.io", "images", "import"),
    "podman": ("podman", "load", "--input"),
    "k3s": ("k3s", "ctr", "images", "import"),
    "kind": ("kind", "load", "image-archive"),
    "minikube": ("minikube", "image", "load"),
}
"""Tool -> its command, to which the archive is added. The first three are for the node that this machine is."""
_BUILD = ("deploy/image/build.sh",)
_STORAGE = TOP / ".cache/image"
"""Where build.sh keeps what buildah makes."""


def built_and_loaded(tool: str, say: Callable[[str], None], build: Sequence[str] = _BUILD, at: Path = _STORAGE) -> str:
    """The name by which pods can use it; `tool` may end in options: `kind --name lab`. Raises Refused."""
    name, *options = tool.split()
    if name not in LOADERS:
        raise Refused(f"--load {name}: unknown; there are {', '.join(LOADERS)}")
    say("building the image")
    _run(build)
    with tempfile.TemporaryDirectory(prefix="numaudit-e2e-") as folder:
        archive = Path(folder) / "numaudit.tar"
        driver = "overlay" if (at / "storage/overlay-images").is_dir() else "vfs"
        where = (f"--root={at}/storage", f"--runroot={at}/run", f"--storage-driver={driver}")
        _run(("buildah", *where, "push", "--quiet", "localhost/numaudit", f"docker-archive:{archive}:{NAME}"))
        say(f"loading the image by {name}")
        _run((*LOADERS[name], str(archive), *options))
    return NAME


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"`{command[0]}`: {error.strerror}; install it, or give --image") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise Refused(f"`{' '.join(command[:3])} ...`: {said[-1]}")
