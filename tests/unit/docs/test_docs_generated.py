"""Pages that are made of the code: the settings, the metrics and the glossary. `make golden` writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numaudit.cli.help import GLOSSARY
from numaudit.config.settings import KEYS
from numaudit.exporters.catalogue import CONTAINER_METRICS, LABELS, LIVE_METRICS, METRICS, TICK_METRICS, labels_of
from numaudit.exporters.metric import Metric

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
        "A running agent reads the file again when it has changed, and at SIGHUP (or POST to `/-/reload`, where",
        "`web.reload` is on). Settings with \\* take effect then, all others at the next start.",
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
