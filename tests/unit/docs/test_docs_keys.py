"""Pages name keys of JSON documents as the documents spell them, in camelCase."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.config.settings import KEYS
from numaudit.doctor.sources import SOURCE_CHECKS
from numaudit.evaluation.thresholds import Thresholds
from numaudit.exporters.catalogue import LABELS
from screens.pages import TOP

OF_PYTHON = {"memorymanager.md"}
"""The page about the library, whose names are Python's."""
PROSE = [page for page in sorted(TOP.glob("docs/**/*.md")) if page.name not in OF_PYTHON]


def _keys(schema: object) -> Iterator[str]:
    """Names of properties, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for below in schema.values():
            yield from _keys(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from _keys(below)


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


OLD = {
    _snake(key): key
    for schema in TOP.glob("docs/schemas/*.json")
    for key in _keys(json.loads(schema.read_text(encoding="utf-8")))
    if _snake(key) != key
}
"""A key as it was spelled before numaudit/v1 was stable -> as it is."""
OTHER_NAMES = (
    {*LABELS, *Thresholds.__annotations__}
    | {one.source for one in SOURCE_CHECKS}
    | {part for key in KEYS for part in key.split(".")}
)
"""Labels, limits of verdicts, sources and settings, which are spelled so."""


def misspelled(text: str) -> list[str]:
    """Words in back-ticks that are an old spelling of a key, with the new one."""
    codes = re.findall(r"`([^`\n]+)`", text)
    words = [word for code in codes for word in re.findall(r"(?<![\w/.-])[a-z]+_\w+(?![\w/.-])", code)]
    return [f"{word}: write {OLD[word]}" for word in dict.fromkeys(words) if word in OLD and word not in OTHER_NAMES]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(TOP)))
def test_a_page_spells_keys_as_the_documents_do(page: Path) -> None:
    assert misspelled(page.read_text(encoding="utf-8")) == []


def test_an_old_spelling_would_be_noticed() -> None:
    assert len(OLD) > 100
    assert misspelled("`remote_bytes`, `numa_node`, `--remote_bytes`") == ["remote_bytes: write remoteBytes"]
