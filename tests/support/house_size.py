"""Size of the project: `python tests/support/house_size.py`. Lines and files of what git keeps, by kind and package."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
_PACKAGES = Path("agent/numaudit")


def main() -> None:
    lines, files = Counter[str](), Counter[str]()
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=TOP, text=True).split("\0")[:-1]:
        path = Path(name)
        try:
            size = len((TOP / path).read_text(encoding="utf-8").splitlines())
        except (UnicodeDecodeError, FileNotFoundError):  # a picture, an archive, or it is removed and not committed
            continue
        for kind in _kinds(path):
            lines[kind] += size
            files[kind] += 1
    for kind in sorted(lines, key=lambda one: (-lines[one], one)):
        print(f"{lines[kind]:8,} lines {files[kind]:6,} files  {kind}")


def _kinds(path: Path) -> list[str]:
    found = ["all text"]
    if path.suffix == ".py" and path.parts[0] == "tests":
        found.append("tests, Python")
    if path.suffix == ".py" and path.is_relative_to(_PACKAGES):
        below = path.relative_to(_PACKAGES).parts
        found += [
            "product, Python",
            f"  numaudit.{below[0]}" if len(below) > 1 else "  numaudit, modules by themselves",
        ]
    return found


if __name__ == "__main__":
    main()
