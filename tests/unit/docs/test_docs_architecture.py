"""docs/architecture.md names what is there, and its dry runs need no more files than they may."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest

from numaudit.cli.main import VERBS, module_of
from numaudit.config.settings import KEYS
from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.table import of_probes
from numaudit.engine.observer import Observer
from numaudit.evaluation.findings import (
    RULES,
    devices,
    huge_pages,
    kubelet,
    machine,
    measured,
    oom_risk,
    policies,
    promised,
    ranks,
    tiers,
)
from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import ProbeKind
from numaudit.probes.session import ProbeReadings, Session
from numaudit.report.counters import COUNTERS, Counters

TOP = Path(__file__).parents[3]
PACKAGE = TOP / "agent/numaudit"
PAGE = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*(?:\.bpf\.c|\.py))`")
MOST_MODULES = 15
GOALS = {
    "column": (0, 1),
    "counter": (0, 4),
    "probe": (3, 4),
    "finding": (0, 1),
    "setting": (0, 1),
    "verb": (1, 1),
    "output": (1, 1),
    "source": (1, 3),
}
"""Kind of change -> new files and edited files at most."""
NAMES_A_PROBE = {
    "cli/manager/assert_work.py": "its limit of migrations rests on the one probe that counts them",
    "engine/collectors/sanity_check.py": "holds the counted hint faults against the kernel's own count",
    "doctor/checks.py": "the probe pmu is shown among the sources",
    "doctor/sources.py": "a source of access figures is tried on a known load of its own",
    "engine/collectors/probes/pages_used.py": "what scan passes say, beside what processes map",
    "engine/collectors/probes/process_counters.py": "processes are counted with the events of the probe of containers",
    "engine/collectors/probes/scan_passes.py": "what is kept of scan passes from tick to tick",
    "evaluation/access.py": "what a source of accesses may say, and which comes first",
    "evaluation/sources/hint_faults.py": "a source of accesses has its own arithmetic",
    "evaluation/sources/pmu.py": "a source of accesses has its own arithmetic",
    "exporters/catalogue/of_containers.py": "a metric names the counters' fields that it reads",
    "exporters/catalogue/values.py": "a metric of counted or of sampled accesses names its source",
    "report/counters.py": "a counter's field is called as the probe that counts it",
    "doctor/near_and_far.py": "the self test's known CPU time and accesses are compared with these probes",
    "doctor/selftest.py": "the self test's known work is compared with each source",
}
"""Modules that are about one probe, and why. All others walk KINDS."""


def _dry_runs() -> Iterator[tuple[str, list[str], list[str]]]:
    """Kind of change, new files, edited files."""
    section = PAGE.partition("### Dry runs\n")[2].partition("\n#")[0]
    for line in section.splitlines():
        match = re.match(r"\| (\w+): [^|]+\|([^|]*)\|([^|]*)\|$", line)
        if match is not None:
            yield match[1], MODULE.findall(match[2]), MODULE.findall(match[3])


def test_every_module_that_the_page_names_is_there() -> None:
    named = {name.removeprefix("agent/numaudit/") for name in MODULE.findall(PAGE) if "/x." not in name}
    assert len(named) > 50
    assert {name for name in named if not (PACKAGE / name).exists()} == set()


def test_every_package_is_in_the_table_of_folders() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    listed = set(re.findall(r"^\| `agent/numaudit/([a-z]+)/` \|", PAGE, re.MULTILINE))
    assert listed == packages


def test_the_drawing_names_packages_that_are_there() -> None:
    drawing = (TOP / "docs/images/architecture.svg").read_text(encoding="utf-8")
    named = set(re.findall(r"\b([a-z]+)/(?=<)", drawing))
    assert {"kernel", "probes", "engine", "evaluation", "exporters", "daemon"} <= named
    assert {name for name in named if not (PACKAGE / name / "__init__.py").exists()} == set()


def test_every_module_of_the_kubelets_client_side_is_listed() -> None:
    section = PAGE.partition("### Inside `kubelet/`\n")[2].partition("\n#")[0]
    kubelet = (PACKAGE / "kubelet").rglob("*.py")
    modules = {str(path.relative_to(PACKAGE)) for path in kubelet if path.stem not in ("__init__", "podresources_pb2")}
    assert set(MODULE.findall(section)) == modules


def test_no_folder_has_more_modules_than_one_sees_at_a_glance() -> None:
    folders = [path for path in (PACKAGE, *PACKAGE.rglob("*")) if path.is_dir() and path.name != "__pycache__"]
    counts = {str(path): len([one for one in path.glob("*.py") if one.stem != "__init__"]) for path in folders}
    assert {path: count for path, count in counts.items() if count > MOST_MODULES} == {}


def test_the_picture_shows_the_import_contract() -> None:
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["numaudit"]]
    assert "```\n" + "\n".join(layers) + "\n```" in PAGE


@pytest.mark.parametrize("room", ["memorymanager", "checkpoints", "containermanager"])
def test_every_part_of_the_library_is_listed_in_the_order_of_its_import_contract(room: str) -> None:
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == [f"numaudit.{room}"]]
    section = PAGE.partition("### Inside the memory manager\n")[2].partition("\n#")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    place = {part: number for number, layer in enumerate(layers) for part in layer.split(" | ")}
    named = [part for cell in cells for part in re.findall(rf"`{room}/(\w+)(?:/|\.py)`", cell)]
    assert sorted(named) == sorted(place)
    assert [place[part] for part in named] == sorted(place[part] for part in named)


def test_each_kind_of_change_was_tried_and_keeps_to_its_goal() -> None:
    found = list(_dry_runs())
    assert {kind for kind, _, _ in found} == set(GOALS)
    for kind, new, edited in found:
        most_new, most_edited = GOALS[kind]
        assert edited, kind
        assert len(set(new)) <= most_new, kind
        assert len(set(edited)) <= most_edited, kind
        assert all("/x." in name for name in new), kind
        assert all((PACKAGE / name).exists() for name in edited), kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_probe_has_the_files_that_the_dry_run_names(kind: object) -> None:
    name = getattr(kind, "name", "")
    assert (PACKAGE / f"probes/{name}.py").exists()
    assert (PACKAGE / f"engine/collectors/probes/{name}.py").exists()
    assert (TOP / f"bpf/{name}.bpf.c").exists()


def _names_of_probes(tree: ast.Module) -> set[str]:
    """Kinds of probes that a module imports or has as a text of its own."""
    names = {kind.name for kind in KINDS}
    texts = {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    imported = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    return {name for name in names if name in texts or f"numaudit.probes.{name}" in imported}


def test_no_module_names_a_probe_but_the_probes_own_the_lists_and_those_with_a_reason() -> None:
    own = {f"{folder}/{kind.name}.py" for kind in KINDS for folder in ("probes", "engine/collectors/probes")}
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if _names_of_probes(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert naming - own - {"probes/kinds.py"} == set(NAMES_A_PROBE)


def test_a_module_that_names_a_probe_would_be_noticed() -> None:
    assert _names_of_probes(ast.parse("from numaudit.probes.cpu_time import CPU_TIME")) == {"cpu_time"}
    assert _names_of_probes(ast.parse("ORDER = ('page_alloc', 'x')")) == {"page_alloc"}
    assert _names_of_probes(ast.parse("from numaudit.probes.probe import ProbeKind")) == set()


def test_the_setting_of_probes_offers_every_kind_and_its_default_follows_the_kinds() -> None:
    everything = sorted(kind.name for kind in KINDS)
    assert KEYS["probes"].kind.parse(everything) == tuple(everything)
    assert set(KEYS["probes"].default) == {kind.name for kind in KINDS if kind.in_agent}


def test_every_collector_with_a_probe_is_called_as_the_probe() -> None:
    asked = of_probes()
    assert {one.probe: one.name for one in asked if one.probe is not None} == {kind: kind.name for kind in KINDS}


@pytest.mark.parametrize("of", [Observer, TickInputs])
def test_only_what_several_collectors_share_is_in_the_observer_or_the_tick(of: type) -> None:
    shared = ("collectors.containers.owners", "collectors.table", "observer")
    annotated = {
        "ProbeKind": ProbeKind,
        "ProbeReadings": ProbeReadings,
        "Session": Session,
    }
    hints = get_type_hints(of, localns=annotated)  # names that only annotations have
    modules = {getattr(hint, "__module__", "") for hint in hints.values()}
    assert {one for one in modules if one.startswith("numaudit.engine.")} <= {
        f"numaudit.engine.{one}" for one in shared
    }


def test_a_counters_field_and_row_are_in_one_file() -> None:
    assert Counters.__module__ == "numaudit.report.counters"
    assert {counter.field for counter in COUNTERS} == set(Counters.__struct_fields__)


def test_every_rule_is_listed_once_and_every_verb_is_a_module() -> None:
    modules = (promised, devices, oom_risk, huge_pages, policies, ranks, machine, kubelet, tiers, measured)
    assert [rule.name for rule in RULES] == [one.name for of in modules for one in of.RULES]
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {verb for verb in VERBS if find_spec(module_of(verb)) is None} == set()
