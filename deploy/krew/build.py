"""Make krew's archive and manifest of a wheel. By hand, after `python -m build --wheel`:

    python3 deploy/krew/build.py dist/numaudit-0.1.0-py3-none-any.whl https://GIT-HOST/numaudit/releases/download dist

It writes kubectl-numaudit_vVERSION.tar.gz, which belongs below URL/vVERSION/, and numaudit.yaml.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
_LAUNCHER = CHECKOUT / "deploy/krew/kubectl-numaudit"
_PACKAGES = CHECKOUT / "deploy/image/requirements.txt"
"""Versions and hashes of all that the wheel needs: those of the image."""
_DESCRIPTION = """\
Compares where the memory of containers was promised with where it is, and from where it is used: of a pod, of a node,
or of all nodes. It finds the node's agent and asks it, through the API server.
"""
_CAVEATS = """\
It needs Python 3.11 or newer, and the numaudit agent in the cluster, or the right to run a privileged pod (--debug).
For completion put a link on your PATH:
  ln -s ~/.cache/numaudit/*/bin/kubectl_complete-numaudit ~/.local/bin/
"""


def main(wheel: Path, url: str, folder: Path) -> None:
    """Write both files into the folder."""
    version = f"v{wheel.name.split('-')[1]}"
    archive = folder / f"kubectl-numaudit_{version}.tar.gz"
    archive.write_bytes(_archive(wheel))
    manifest = _manifest(version, f"{url.rstrip('/')}/{version}/{archive.name}", archive.read_bytes())
    # JSON is YAML, and needs no package.
    (folder / "numaudit.yaml").write_text(json.dumps(manifest, indent=2) + "\n")


def _archive(wheel: Path) -> bytes:
    """The same bytes for the same content."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, mode in ((_LAUNCHER, 0o755), (CHECKOUT / "LICENSE", 0o644), (_PACKAGES, 0o644), (wheel, 0o644)):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, mode
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(plain.getvalue(), mtime=0)


def _manifest(version: str, uri: str, archive: bytes) -> dict[str, object]:
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "numaudit"},
        "spec": {
            "version": version,
            "homepage": uri.partition("/releases/")[0],
            "shortDescription": "Prove that promised NUMA alignment happened",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchExpressions": [systems]},
                    "uri": uri,
                    "sha256": hashlib.sha256(archive).hexdigest(),
                    "bin": "kubectl-numaudit",
                }
            ],
        },
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
