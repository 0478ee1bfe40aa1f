"""The words of --sort, without what they sort by: a verb's help needs no more, and the columns take long to import."""

from __future__ import annotations

SORT_KEYS = ("verdict", "judged", "misplaced", "remote", "file", "cpu", "name")
"""Those of `numaudit.api.ordering`."""
