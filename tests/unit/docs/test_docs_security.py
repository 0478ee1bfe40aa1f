"""docs/security.md: each claim names a test that there is, and each claim of the tests is there."""

from __future__ import annotations

import re
from pathlib import Path

from confinement.tests import CLAIMS

TOP = Path(__file__).parents[3]
PAGE = TOP / "docs/security.md"


def test_every_test_that_the_generated_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)(?:\[[^`]*\])?`", PAGE.read_text()))
    assert named
    code = "".join(file.read_text() for file in TOP.glob("tests/**/*.py"))
    assert {name for name in named if f"def {name}(" not in code} == set()


def test_every_claim_of_the_tests_is_on_the_generated_page() -> None:
    listed = re.search(r"<!-- claims -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert listed
    assert re.findall(r"^- (.*?)[;.]?$", listed[1], re.MULTILINE) == sorted(CLAIMS)
