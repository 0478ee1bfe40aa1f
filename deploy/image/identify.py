"""Completes a bill of materials: the image, the numaudit and the Debian in it get version and package URL.

    python3 identify.py BILL VERSION DEBIAN_VERSION

The tools before it leave these three open: the project's version is in its code, and no registry has its package.
"""

import json
import sys
from pathlib import Path


def main(file: Path, version: str, debian: str) -> None:
    bill = json.loads(file.read_text())
    image = bill["metadata"]["component"]
    image |= {"type": "container", "version": version, "purl": f"pkg:oci/numaudit?tag={version}"}
    for component in bill["components"]:
        if component["name"] == "numaudit":
            component |= {"version": version, "purl": f"pkg:generic/numaudit@{version}"}
        elif component["name"] == "Debian":
            component |= {"version": debian, "purl": f"pkg:generic/debian@{debian}"}
    file.write_text(json.dumps(bill, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
