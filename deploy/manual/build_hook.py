"""Makes the manual pages when hatchling builds a package, which takes them from share/man."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface):
    """The hook that pyproject.toml names. Needs click and msgspec, as the help of the commands does."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files are packed; `version` is `standard` or `editable`."""
        root = Path(self.root)
        sys.path[:0] = [str(root / "agent"), str(root / "deploy/manual")]
        from manual_pages import write  # noqa: PLC0415 (found only now)

        write(root / "share/man/man1")
