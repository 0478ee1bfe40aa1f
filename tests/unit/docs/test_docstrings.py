"""Docstrings of the package name a thing or begin with a verb. Descriptions in schemas are made of them.

Programs use plain words, in comments and texts too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.plain_words import banned_words_of_code
from screens.pages import TOP

PACKAGE = TOP / "agent/numaudit"
PROGRAMS = sorted(
    path
    for pattern in (
        "agent/**/*.py",
        "agent/**/*.yaml",
        "agent/**/*.c",
        "bpf/*.[ch]",
        "dashboards/**/*.py",
        "deploy/**/*.py",
        "tests/**/*.py",
    )
    for path in TOP.glob(pattern)
    if path.name not in ("plain_words.py", "test_docs_prose.py", "test_docs_words.py", "test_docstrings.py")
)
"""Without those that list the banned words."""
_SUBJECTS = ("what", "whatever", "who", "whom", "whose", "which", "whether", "where", "how", "why", "when")
"""As first word they put a clause where the reader looks for the thing's name."""


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that stands alone: of modules, classes, functions and fields."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def clauses(text: str) -> list[str]:
    """Docstrings that begin with such a word, with their lines."""
    return [
        f"{line}: {said.splitlines()[0]}"
        for line, said in docstrings(text)
        if said.split()[:1] and said.split()[0].lower() in _SUBJECTS
    ]


@pytest.mark.parametrize("folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda one: one.name)
def test_a_docstring_names_a_thing_or_begins_with_a_verb(folder: Path) -> None:
    found = {path.name: wrong for path in folder.glob("*.py") if (wrong := clauses(path.read_text(encoding="utf-8")))}
    assert not found


def test_a_docstring_that_begins_with_what_would_be_noticed() -> None:
    text = '"""What it does."""\nclass A:\n    x: int\n    """Whatever is in it."""\n    y: int\n    """Pages."""\n'
    assert clauses(text) == ["1: What it does.", "4: Whatever is in it."]


def test_programs_use_plain_words() -> None:
    said = {str(path.relative_to(TOP)): banned_words_of_code(path.read_text(encoding="utf-8")) for path in PROGRAMS}
    assert len(said) > 500
    assert {path: words for path, words in said.items() if words} == {}


def test_a_banned_word_in_a_program_would_be_noticed() -> None:
    assert banned_words_of_code("x = 1  # compared\n# Held\n# against the truth\n") == [
        "'held against': write 'compared with'"
    ]
    assert banned_words_of_code('"""It is\n    told."""\nanew_ = 1') == ["'is told': write 'is reported'"]


def test_no_comment_relies_on_a_commit_of_the_kernel_that_nobody_can_check_here() -> None:
    """Versions on which we saw it, or the source file, are checked with each kernel that we test."""
    text = {str(path.relative_to(TOP)): path.read_text(encoding="utf-8") for path in PROGRAMS}
    assert {path for path, said in text.items() if re.search(r"\bcommit\s+[0-9a-f]{7,}\b", said)} == set()
