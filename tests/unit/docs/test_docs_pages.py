"""Links, words and length of the pages, and what docs/architecture.md says of the folders."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from documentation.plain_words import banned_words, banned_words_of_code
from numaudit.config.settings import KEYS
from numaudit.probes.kinds import KINDS
from screens.pages import PAGES, TOP, anchors, code_of


def _lost_files(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)}
    named = {span for span in code_of(page) if re.fullmatch(r"(?:agent|bpf|deploy|docs|tests)/[\w./-]+", span)}
    lost = {link for link in links if link and not (page.parent / link).exists()}
    return lost | {name for name in named if not (TOP / name).exists() and "/x." not in name}


def _lost_anchors(page: Path) -> set[str]:
    """Links of our own pages to headings that are not there."""
    text = page.read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)}
    targets = {link: (page.parent / link.partition("#")[0] if link[0] != "#" else page) for link in links}
    return {link for link, target in targets.items() if link.partition("#")[2] not in anchors(target.resolve())}


def test_every_file_and_heading_that_a_page_names_is_there() -> None:
    assert {page: lost for page in PAGES if (lost := _lost_files(page) | _lost_anchors(page))} == {}


def test_the_index_has_a_line_for_every_page() -> None:
    index = (TOP / "docs/README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[[^]]+\]\(([\w.-]+\.md)\) \|", index, re.MULTILINE))
    assert listed == {page.name for page in (TOP / "docs").glob("*.md")} - {"README.md"}


DOCUMENTS = sorted((TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("docs/**/*.md")))
GENERATED = {TOP / "docs/metrics.md", TOP / "docs/setup.md"}
MOST_WORDS = 41_900
"""Of all pages together, tables and code included, but without the lists of metrics and of rules."""
MOST_WORDS_OF_README = 1_200
MOST_WORDS_OF_PARAGRAPH = 120
FOLDERS = (
    "agent/**/*.py",
    "agent/**/*.yaml",
    "bpf/*.[ch]",
    "dashboards/**/*.py",
    "deploy/**/*.py",
    "deploy/rules/*.yaml",
    "tests/**/*.py",
)
PROGRAMS = [path for pattern in FOLDERS for path in TOP.glob(pattern) if path.name != "plain_words.py"]


def words(text: str) -> int:
    """Tokens with a letter or a digit: the bars of a table are no words."""
    return sum(any(letter.isalnum() for letter in token) for token in text.split())


def _paragraphs(text: str) -> Iterator[str]:
    """Without code blocks, comments and tables; each item of a list is one."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\|.*$|^#.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)


def test_a_page_has_plain_words_and_no_long_paragraph() -> None:
    paragraphs = [(page, one) for page in DOCUMENTS for one in _paragraphs(page.read_text(encoding="utf-8"))]
    assert [found for found in paragraphs if words(found[1]) > MOST_WORDS_OF_PARAGRAPH] == []
    banned = [(page, banned_words(" ".join(re.sub(r"`[^`]*`", "", one).split()))) for page, one in paragraphs]
    assert [found for found in banned if found[1]] == []


def test_the_documentation_is_short() -> None:
    assert words((TOP / "README.md").read_text(encoding="utf-8")) <= MOST_WORDS_OF_README
    assert sum(words(page.read_text(encoding="utf-8")) for page in DOCUMENTS if page not in GENERATED) <= MOST_WORDS


def test_programs_use_plain_words() -> None:
    found = {str(path.relative_to(TOP)): banned_words_of_code(path.read_text(encoding="utf-8")) for path in PROGRAMS}
    assert {path: words for path, words in found.items() if words} == {}


PACKAGE = TOP / "agent/numaudit"
PAGE = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*(?:\.bpf\.c|\.py))`")
MOST_MODULES = 15


def test_every_module_that_the_page_names_is_there() -> None:
    named = {name.removeprefix("agent/numaudit/") for name in MODULE.findall(PAGE) if "/x." not in name}
    assert len(named) > 50
    assert {name for name in named if not (PACKAGE / name).exists()} == set()


def test_every_package_is_in_the_table_of_folders() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    listed = set(re.findall(r"^\| `agent/numaudit/([a-z]+)/` \|", PAGE, re.MULTILINE))
    assert listed == packages


def test_no_folder_has_more_modules_than_one_sees_at_a_glance() -> None:
    folders = [path for path in (PACKAGE, *PACKAGE.rglob("*")) if path.is_dir() and path.name != "__pycache__"]
    counts = {str(path): len([one for one in path.glob("*.py") if one.stem != "__init__"]) for path in folders}
    assert {path: count for path, count in counts.items() if count > MOST_MODULES} == {}


def test_the_picture_shows_the_import_contract() -> None:
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["numaudit"]]
    assert "```\n" + "\n".join(layers) + "\n```" in PAGE


def test_the_setting_of_probes_offers_every_kind_and_its_default_follows_the_kinds() -> None:
    everything = sorted(kind.name for kind in KINDS)
    assert KEYS["probes"].kind.parse(everything) == tuple(everything)
    assert set(KEYS["probes"].default) == {kind.name for kind in KINDS if kind.in_agent}
