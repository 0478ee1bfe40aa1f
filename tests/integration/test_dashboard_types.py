"""TypeScript holds the dashboards against the types of four major versions of Grafana."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import npm_packages
from monitoring.grafana import dashboards, panels
from numaudit.errors import Unavailable

Json = dict[str, Any]

MAJORS = (10, 11, 12, 13)
# In JSON a member of an enum is its plain value.
PLAIN = """
type Plain<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
    : T extends readonly (infer One)[] ? Plain<One>[] : T extends object ? { [Name in keyof T]: Plain<T[Name]> } : T;
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    try:
        return npm_packages.find()
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


def _complaints(packages: Path, folder: Path, major: int, **sources: str) -> list[str]:
    """What tsc says of these sources, with one major version as @grafana/schema."""
    schema = folder / "node_modules/@grafana/schema"
    schema.parent.mkdir(parents=True)
    schema.symlink_to(packages / f"node_modules/grafana-schema-{major}")
    for name, source in sources.items():
        (folder / f"{name}.mts").write_text(PLAIN + source)
    tsc = packages / "node_modules/typescript/bin/tsc"
    options = ["--strict", "--noEmit", "--skipLibCheck", "--preserveSymlinks", "--module", "nodenext"]
    command = ["node", str(tsc), *options, *(f"{name}.mts" for name in sources)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()


def _source(schema: Path, found: list[Json]) -> str:
    """Each dashboard, and what its panels set of their own."""
    every = [panel for dashboard in found for panel in panels(dashboard)]
    lines = ["import type { Dashboard } from '@grafana/schema';"]
    for kind in sorted({panel["type"] for panel in every}):
        types = sorted(schema.glob(f"dist/*/raw/composable/{_name(kind)}/panelcfg/x/*.gen.d.ts"))[-1]
        place = str(types.relative_to(schema)).removesuffix(".d.ts")
        lines.append(f"import type * as {_name(kind)} from './node_modules/@grafana/schema/{place}.js';")
    lines += [f"({json.dumps(dashboard)}) satisfies Plain<Dashboard>;" for dashboard in found]
    for panel in every:
        kind, custom = _name(panel["type"]), panel["fieldConfig"]["defaults"].get("custom")
        lines.append(f"({json.dumps(panel['options'])}) satisfies Plain<Partial<{kind}.Options>>;")
        if custom is not None:
            lines.append(f"({json.dumps(custom)}) satisfies Plain<Partial<{kind}.FieldConfig>>;")
    return "\n".join(lines)


def _name(kind: str) -> str:
    return kind.replace("-", "")


def _with(path: tuple[str | int, ...], value: object) -> Json:
    """A small dashboard with a field changed."""
    fleet = dashboards()["numaudit-fleet"]
    changed: Json = {**fleet, "panels": fleet["panels"][:2]}
    inside: Any = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return changed


@pytest.mark.parametrize("major", MAJORS)
def test_the_types_of_grafana_take_the_dashboards_and_refuse_wrong_ones(
    packages: Path, tmp_path: Path, major: int
) -> None:
    schema = packages / f"node_modules/grafana-schema-{major}"
    wrong = {
        "title": _with(("title",), 1),
        "place": _with(("panels", 1, "gridPos", "x"), "left"),
        "refresh": _with(("templating", "list", 1, "refresh"), 7),
        "no_such_field": _with(("noSuchField",), True),
        "choice": _with(("panels", 1, "options", "colorMode"), "rainbow"),
        "no_such_option": _with(("panels", 1, "options", "noSuchOption"), True),
    }
    sources = {name: _source(schema, [one]) for name, one in wrong.items()}
    found = _complaints(packages, tmp_path, major, right=_source(schema, list(dashboards().values())), **sources)
    assert [line for line in found if line.startswith("right.mts")] == []
    assert {line.partition(".mts")[0] for line in found if "error TS" in line} == set(wrong)
