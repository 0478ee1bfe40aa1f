"""Tables of the documents that are made of the code. `make golden` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from documentation.marked_places import fill
from numaudit.cli.help import GLOSSARY
from numaudit.config.settings import KEYS
from numaudit.doctor.sources import SOURCE_CHECKS
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, RankCause
from numaudit.evaluation.setup import AREAS, RULES
from numaudit.exporters.catalogue import CONTAINER_METRICS, LABELS, LIVE_METRICS, METRICS, TICK_METRICS, labels_of
from numaudit.exporters.metric import Metric
from numaudit.pmu.families import EventSet, families
from numaudit.pmu.identity import VIRTUAL_KINDS
from numaudit.ranks.launcher import Launcher
from numaudit.ranks.table import LAUNCHERS
from numaudit.report.columns import ViewName, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS
from numaudit.views.top.columns import BAR, LATELY
from screens.pages import TOP

MatchesGolden = Callable[[str, str], None]
_IDENTITY_NOTE = """\
All of these also have the labels `namespace`, `pod` and `container`. Series continue over restarts: gauges show the
newest instance, and counters go on counting. Series of an ended container stay for two scrapes (or 20 ticks), so
that short-lived containers are seen."""


def test_the_page_of_settings_is_the_code(matches_golden: MatchesGolden) -> None:
    lines = [
        "# Settings of the agent",
        "",
        "`make golden` generates this page. A flag wins over the environment, the environment over the file",
        "given with `--config` (YAML; `web.timeout` is the key `timeout` below `web`). The environment's variable of",
        "`web.timeout` is `NUMAUDIT_WEB_TIMEOUT`, its flag `--set web.timeout=VALUE`. `numaudit config show` prints",
        "the settings in force and where each came from, `numaudit config check` every mistake in them.",
        "",
        "A running agent reads the file again when it has changed, and at SIGHUP. Settings with \\* take effect",
        "then, all others at the next start.",
        "",
        "Every other verb that asks the kubelet also reads the settings `kubelet.*`, from the environment and from the",
        "file that `NUMAUDIT_CONFIG` names. In the agent's pod `numaudit report` asks the kubelet that the agent asks.",
        "",
        "| setting | default | must be | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for key in KEYS.values():
        default = key.kind.show(key.default)
        cells = (
            f"`{key.path}`" + (" \\*" if key.reloads else ""),
            f"`{default}`" if default else "unset",
            key.kind.what,
            key.help,
        )
        lines.append(f"| {' | '.join(cells)} |")
    matches_golden("docs/config.md", "\n".join(lines) + "\n")


_THE_SETTINGS = """\
## Settings for this machine

`numaudit setup --kubelet-config` prints the kubelet's settings that this machine needs, as a fragment of a
KubeletConfiguration with the reason for each line as a comment. It keeps `kubeReserved`, `systemReserved`,
`evictionHard` and `reservedSystemCPUs` where they are set and suffice. The
[library](memorymanager.md) checks that a kubelet of this version starts with the result. Where none does, or too little
is known, the command says why and exits with 3.

`--want single-numa-node`, the default, refuses a container that fits no node; `restricted` gives it as few nodes as can
hold it; `pod-scope` gives all containers of a pod the same nodes.

`--reserve measured`, the default, reserves on each node what services, pods that are not Guaranteed and the kernel use
there now, and what has to stay free: what the kernel keeps, or the node's part of `evictionHard` where that is more.
Each sum is rounded up to 64Mi. Print it under the node's usual load. `even` divides the sum in equal parts; where
memory in use is not known, the sum stays as it is set.
"""


def test_the_page_of_setup_is_the_rules(matches_golden: MatchesGolden) -> None:
    lines = [
        "# Setup",
        "",
        "`make golden` generates this page from the rules of `numaudit setup`. An **error** breaks a promise or keeps",
        "the kubelet from starting, a **warning** promises less than it seems, an **info** is worth knowing. A rule",
        "that cannot be judged says why. Rules in `setup.accepted` ([settings](config.md)) are shown as accepted.",
        "`-o html` writes a page of all rules; a report's page has those that do not hold.",
        "",
        _THE_SETTINGS,
    ]
    for area in AREAS:
        lines += [f"## {area.capitalize()}", "", "| rule | severity | why | what to do |", "| --- | --- | --- | --- |"]
        for rule in RULES:
            if rule.area == area:
                name = f'<a id="{rule.id}"></a>[`{rule.id}`]({rule.source})'
                lines.append(f"| {name} | {rule.severity} | {rule.why} | {rule.remedy} |")
        lines.append("")
    matches_golden("docs/setup.md", "\n".join(lines[:-1]) + "\n")


def test_the_page_of_metrics_is_the_catalogue(matches_golden: MatchesGolden) -> None:
    lines = [
        "# Metrics",
        "",
        "`make golden` generates this page from the catalogue of both exporters.",
        "An unknown value has no series: absent is not 0. Counters end in `_total`; all other metrics are gauges. In",
        "OpenMetrics those that end in `_info` are of the type info. States stay gauges: the type stateset would name",
        "their label after the family, so that no query could be the same for both formats.",
        "",
    ]
    for title, rows in (
        ("Containers", CONTAINER_METRICS),
        ("The node and the newest tick", TICK_METRICS),
        ("The agent at the moment of the scrape", LIVE_METRICS),
    ):
        lines += [f"## {title}", "", "| Prometheus | OpenTelemetry | labels | meaning |"]
        lines += ["| --- | --- | --- | --- |", *(_markdown(metric) for metric in rows), ""]
        if rows is CONTAINER_METRICS:
            lines += [_IDENTITY_NOTE, ""]
    lines += ["## Labels", "", "| label | attribute in OpenTelemetry | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | `{label.attribute}` | {label.help} |" for name, label in LABELS.items()]
    matches_golden("docs/metrics.md", "\n".join(lines) + "\n")


def _markdown(metric: Metric[Any]) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    instrument = f"`{metric.instrument}`" if metric.is_pushed else ""
    return f"| `{metric.full_name}` | {instrument} | {labels} | {metric.help} |"


def test_every_label_is_described_and_every_description_is_used() -> None:
    assert {label for metric in METRICS for label in labels_of(metric)} == set(LABELS)
    assert len({label.attribute for label in LABELS.values()}) == len(LABELS)


def test_the_page_of_words_is_the_glossary(matches_golden: MatchesGolden) -> None:
    lines = ["# Glossary", "", "`numaudit help glossary` prints the same.", "", "| word | meaning |", "| --- | --- |"]
    text = "\n".join([*lines, *(f"| {word} | {meaning} |" for word, meaning in GLOSSARY.items())]) + "\n"
    matches_golden("docs/glossary.md", text)


PAGE = Path(__file__).parents[3] / "docs/measuring.md"
FAR_CLUSTER = {"remote": "remote", "socket_minus_local": "remote, as a difference", None: "not told apart"}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _list(words: Iterable[str]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)


def _pair(one: EventSet) -> str:
    may = f"; on some: {_list(one.may_include)}" if one.may_include else ""
    errata = " (has errata)" if any(event.errata for event in (*one.local, *one.remote)) else ""
    return f"{one.unit}: {_list(one.includes)}{may}{errata}"


def _families() -> Iterable[list[str]]:
    """CPUs with the same pairs are one row."""
    titles: dict[tuple[str, str], list[str]] = {}
    for family in families():
        pairs = "<br>".join(_pair(one) for one in family.sets) or "none"
        clusters = FAR_CLUSTER[family.sets[0].far_cluster] if family.sets else "-"
        titles.setdefault((pairs, clusters), []).append(family.title)
    return ([", ".join(same), *key] for key, same in titles.items())


def _latencies() -> Iterable[list[str]]:
    for family in families():
        one = family.latency
        if one is not None:
            figures = [f"{value:g}" for value in (one.local, one.remote, one.remote_cache)]
            yield [family.title, one.unit, *figures, f"{one.remote / one.local:.1f}"]


def test_the_generated_tables_are_those_of_the_code(matches_golden: MatchesGolden) -> None:
    page = PAGE.read_text(encoding="utf-8")
    cpus = ("CPUs", "pairs of events, the best first", "other nodes of the same socket")
    latencies = ("CPU", "unit", "local", "remote", "remote cache", "remote / local")
    kinds = ("virtual machine", "vendor and product begin with", "how it gets a PMU")
    virtual = ([kind.title, f"{kind.vendor} {kind.product}".strip(), kind.hint] for kind in VIRTUAL_KINDS)
    page = fill(page, "families", _table(cpus, _families()))
    page = fill(page, "latencies", _table(latencies, _latencies()))
    matches_golden("docs/measuring.md", fill(page, "virtual machines", _table(kinds, virtual)))


def test_the_page_has_a_row_for_each_source_of_the_doctor_in_its_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## The sources\n")[2].partition("\n#")[0]
    listed = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert listed == [one.source for one in SOURCE_CHECKS]


RANKS = (TOP / "docs/ranks.md").read_text(encoding="utf-8")


def _row(one: Launcher) -> str:
    reads = ", ".join(f"`{word}`" for word in one.reads)
    tried = ", ".join(_version(text, one) for text in one.tried) or one.checked or "–"
    return f"| `{one.name}` | [{one.software}]({one.document}) | {reads} | {tried} |\n"


def _version(tried: str, one: Launcher) -> str:
    """Without a name that the row has already."""
    name, _, version = tried.rpartition(" ")
    return version if one.software.startswith(name) else tried


def test_the_page_lists_every_launcher(matches_golden: MatchesGolden) -> None:
    head = "| launcher | software | reads | tried with |\n| --- | --- | --- | --- |\n"
    matches_golden("docs/ranks.md", fill(RANKS, "launchers", head + "".join(map(_row, LAUNCHERS))))


def test_every_verdict_and_cause_is_explained() -> None:
    section = RANKS.partition("\n## Verdicts\n")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == RANK_VERDICTS
    assert set(get_args(RankCause)) <= set(re.findall(r"`([a-z-]+)`", section))


VIEWS: tuple[ViewName, ...] = ("table", "top")
REPORT = (TOP / "docs/report.md").read_text(encoding="utf-8")


def test_every_column_is_explained() -> None:
    of_containers = {column.heading(place) for view in VIEWS for column, place in columns_of(view, wide=True)}
    of_nodes = {column.heading(place) for view in VIEWS for column, place in placed(NODE_COLUMNS, view)}
    titles = of_nodes | of_containers | {BAR, *LATELY.values()}
    assert len(titles) > 20
    cells = re.findall(r"^\| ([A-Z][A-Z'%, ]*) \|", REPORT, re.MULTILINE)
    explained = {title for cell in cells for title in cell.split(", ")}
    assert explained == titles
