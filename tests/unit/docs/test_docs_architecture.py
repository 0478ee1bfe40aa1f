"""docs/architecture.md names what is there, and its dry runs need no more files than they may."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from numaudit.config.settings import KEYS
from numaudit.probes.kinds import KINDS

TOP = Path(__file__).parents[3]
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
