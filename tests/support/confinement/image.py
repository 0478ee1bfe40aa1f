"""The agent's image, built by `deploy/image/build.sh` unless it is there already, and commands in it under runc."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from numaudit.errors import Unavailable

_BUILD = Path(__file__).parents[3] / "deploy/image/build.sh"
_PATIENCE = 300.0


@cache
def rootfs() -> Path:
    """The folder of the image's unpacked root file system; write nothing into it. Raises Unavailable.

    The first build takes some minutes and needs Debian's mirror and PyPI; with nothing changed, it takes a second.
    """
    done = subprocess.run([_BUILD], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"no image: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def config() -> Mapping[str, Any]:
    """What the image says of how to run it (OCI image-spec, `config.md`): `config`, `rootfs`, `history`."""
    found: dict[str, Any] = json.loads((rootfs().parent / "config.json").read_text())
    return found


def run(*arguments: str, mounts: Mapping[Path, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The image's program with these arguments, as runc runs it by default: few capabilities, nothing to write to.

    `mounts` maps folders of this host to where the container sees them, read-only: folders that the image has.
    """
    return run_program(*config()["config"]["Entrypoint"], *arguments, mounts=mounts)


def run_program(*command: str, mounts: Mapping[Path, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Any command in the image; see `run`."""
    with bundle(command, mounts or {}) as start:
        return subprocess.run(start, capture_output=True, text=True, timeout=_PATIENCE, check=False)


@contextlib.contextmanager
def bundle(
    command: Iterable[str], mounts: Mapping[Path, str], capabilities: Iterable[str] = ()
) -> Iterator[list[str | Path]]:
    """The command that starts a container, in the foreground; it is gone at the end.

    With capabilities it has these, and the processes and the network of the host, as an agent does.
    """
    image = config()["config"]
    with tempfile.TemporaryDirectory(prefix="numaudit-image-") as name:
        folder = Path(name)
        subprocess.run(["runc", "spec"], cwd=folder, check=True)
        spec = json.loads((folder / "config.json").read_text())
        spec["root"] = {"path": str(rootfs()), "readonly": True}
        spec["process"] |= {"args": [*command], "env": image["Env"], "terminal": False, "cwd": "/"}
        spec["mounts"] += [
            {"destination": at, "source": str(path), "type": "bind", "options": ["rbind", "ro"]}
            for path, at in mounts.items()
        ]
        if capabilities:
            sets = ("bounding", "effective", "permitted")
            spec["process"]["capabilities"] = {one: [*capabilities] for one in sets}
            spec["linux"]["namespaces"] = [{"type": one} for one in ("mount", "ipc", "uts")]
        (folder / "config.json").write_text(json.dumps(spec))
        container = folder.name
        try:
            yield ["runc", "--root", folder / "state", "run", "--bundle", folder, container]
        finally:
            delete: list[str | Path] = ["runc", "--root", folder / "state", "delete", "--force", container]
            subprocess.run(delete, stderr=subprocess.DEVNULL, check=False)
