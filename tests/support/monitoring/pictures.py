"""Pictures of dashboards as SVG: their panels, from what a database answered. Grafana draws them in its own way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from monitoring.grafana import Answer, Json, Window

CELL, ROW, GAP = 50, 36, 6
"""Pixels of one column, one row and between panels."""
HEAD = 22
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
PALETTE = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300")
NAMED = {
    "green": "#56a64b",
    "dark-red": "#c4162a",
    "red": "#e02f44",
    "dark-orange": "#e55400",
    "orange": "#ff780a",
    "purple": "#8f3bb8",
    "blue": "#3274d9",
    "gray": "#8e8e8e",
    "text": "#24292e",
}
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def picture(dashboard: Json, found: Iterable[Answer], window: Window) -> str:
    """The whole page."""
    by_panel: dict[str, list[Answer]] = {}
    for answer in found:
        by_panel.setdefault(answer.panel, []).append(answer)
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width, height = 24 * CELL, rows * ROW + 40
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {FONT} font-size='11'>"]
    parts.append(f"<rect width='{width}' height='{height}' fill='#f4f5f5'/>{_text(10, 26, dashboard['title'], 18)}")
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * CELL, place["y"] * ROW + 40
        if panel["type"] == "row":
            parts.append(_text(x + 8, y + 24, panel["title"], 14))
            continue
        w, h = place["w"] * CELL - GAP, place["h"] * ROW - GAP
        inside = "".join(_inside(panel, by_panel.get(panel["title"], []), w, h - HEAD, window))
        parts.append(
            f"<svg x='{x + GAP / 2}' y='{y}' width='{w}' height='{h}'>"
            f"<rect width='{w}' height='{h}' fill='#fff' stroke='#d8d9da'/>"
            f"{_text(8, 16, panel['title'], 12)}<svg y='{HEAD}' width='{w}' height='{h - HEAD}'>{inside}</svg></svg>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _inside(panel: Json, found: list[Answer], w: float, h: float, window: Window) -> Iterator[str]:
    lines = [(name, series) for answer in found for name, series in zip(answer.legends, answer.series, strict=True)]
    if not lines:
        yield _text(w / 2, h / 2, panel["fieldConfig"]["defaults"]["noValue"], 12, "#8e8e8e", "middle")
        return
    match panel["type"]:
        case "stat":
            yield from _stat(panel, lines, w, h)
        case "bargauge":
            yield from _bars(panel, lines, w, h)
        case "table":
            yield from _table(panel, found, w, h)
        case "state-timeline":
            yield from _states(panel, lines, w, h, window)
        case _:
            yield from _lines(panel, lines, w, h, window)


Line = tuple[str, Json]


def _stat(panel: Json, lines: list[Line], w: float, h: float) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    each = w / len(lines)
    for index, (name, series) in enumerate(lines):
        value = float(series["value"][1])
        text, color = _mapped(defaults["mappings"], value) or (_number(value, defaults["unit"]), None)
        for step in defaults["thresholds"]["steps"]:
            if color is None or (step["value"] is not None and value >= step["value"] and not defaults["mappings"]):
                color = NAMED[step["color"]]
        filled = panel["options"]["colorMode"] == "background"
        if filled:
            yield f"<rect x='{index * each + 3}' width='{each - 6}' height='{h - 4}' fill='{color}'/>"
        middle = index * each + each / 2
        size = min(26, each / max(4, len(text)) * 1.5)
        yield _text(middle, h / 2 + 10, text, size, "#fff" if filled else color or "", "middle")
        if len(lines) > 1:
            yield _text(middle, h - 12, name, 11, "#fff" if filled else "", "middle")


def _bars(panel: Json, lines: list[Line], w: float, h: float) -> Iterator[str]:
    colors = _colors(panel, [name for name, _ in lines])
    numbers = [float(series["value"][1]) for _, series in lines]
    top = max(*numbers, 1e-9)
    each = min(28, h / len(lines))
    longest = min(w * 0.45, 8 + 6.6 * max(len(name) for name, _ in lines))
    for index, ((name, _), value) in enumerate(zip(lines, numbers, strict=True)):
        y = index * each
        size = min(11, each)
        yield _text(longest - 4, y + each * 0.7, name, size, "", "end")
        yield (
            f"<rect x='{longest}' y='{y + each * 0.15:.1f}' width='{max(1, (w - longest - 80) * value / top):.1f}' "
            f"height='{each * 0.7:.1f}' fill='{colors[name]}'/>"
        )
        yield _text(w - 6, y + each * 0.7, _number(value, panel["fieldConfig"]["defaults"]["unit"]), size, "", "end")


@dataclass(frozen=True, slots=True)
class Point:
    at: float
    low: float
    """What it is stacked on."""
    high: float


@dataclass(frozen=True, slots=True)
class Axes:
    """Where times and values are in a panel."""

    left: float
    right: float
    bottom: float
    least: float
    most: float
    window: Window

    def x(self, at: float) -> float:
        return self.left + (self.right - self.left) * (at - self.window.begin) / (self.window.end - self.window.begin)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - 8) * (value - self.least) / (self.most - self.least)

    def drawn(self, unit: str) -> Iterator[str]:
        for part in (0, 0.5, 1):
            value = self.least + (self.most - self.least) * part
            y = self.y(value)
            yield f"<line x1='{self.left}' x2='{self.right}' y1='{y:.1f}' y2='{y:.1f}' stroke='#e4e5e6'/>"
            yield _text(self.left - 4, y + 4, _number(value, unit), 10, "", "end")
        yield _text(self.left, self.bottom + 13, f"-{(self.window.end - self.window.begin) / 60:.0f} min", 10)
        yield _text(self.right, self.bottom + 13, "now", 10, "", "end")


def _lines(panel: Json, lines: list[Line], w: float, h: float, window: Window) -> Iterator[str]:
    defaults, names = panel["fieldConfig"]["defaults"], [name for name, _ in lines]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    curves = _curves(lines, stacked, window)
    values = [point.high for _, points in curves for point in points]
    least = min(defaults.get("min", min(values)), *values)
    most = max(defaults.get("max", max(values)), *values)
    bottom = h - 14 - 14 * _legend_rows(names, w)
    axes = Axes(62, w - 8, bottom, least, most if most > least else least + 1, window)
    yield from axes.drawn(defaults["unit"])
    colors = _colors(panel, names)
    for name, points in curves:
        for piece in _pieces(points, window.step):
            upper = [f"{axes.x(one.at):.1f},{axes.y(one.high):.1f}" for one in piece]
            if stacked:
                lower = [f"{axes.x(one.at):.1f},{axes.y(one.low):.1f}" for one in reversed(piece)]
                yield f"<polygon points='{' '.join(upper + lower)}' fill='{colors[name]}' fill-opacity='.6'/>"
            yield f"<polyline points='{' '.join(upper)}' fill='none' stroke='{colors[name]}' stroke-width='1.5'/>"
    yield from _legend(names, colors, w, h)


def _curves(lines: list[Line], stacked: bool, window: Window) -> list[tuple[str, list[Point]]]:
    """The points of each line; stacked ones stand on those before."""
    below = [0.0] * (window.steps + 1)
    curves = []
    for name, series in lines:
        points = []
        for at, text in series["values"]:
            step = round((at - window.begin) / window.step)
            high = below[step] + float(text)
            points.append(Point(at, below[step], high))
            below[step] = high if stacked else 0.0
        curves.append((name, points))
    return curves


def _pieces(points: list[Point], step: int) -> Iterator[list[Point]]:
    """Where a line has no gap."""
    piece: list[Point] = []
    for point in points:
        if piece and point.at - piece[-1].at > 1.5 * step:
            yield piece
            piece = []
        piece.append(point)
    yield piece


def _legend_places(names: Sequence[str], w: float) -> Iterator[tuple[float, int, str]]:
    x, row = 8.0, 0
    for name in names:
        wide = 20 + 6.3 * len(name)
        if x > 8 and x + wide > w:
            x, row = 8.0, row + 1
        yield x, row, name
        x += wide


def _legend_rows(names: Sequence[str], w: float) -> int:
    return min(4, 1 + max(row for _, row, _ in _legend_places(names, w)))


def _legend(names: Sequence[str], colors: dict[str, str], w: float, h: float) -> Iterator[str]:
    rows = _legend_rows(names, w)
    for x, row, name in _legend_places(names, w):
        if row < rows:
            y = h - 14 * (rows - row) + 8
            yield f"<rect x='{x:.0f}' y='{y - 4:.0f}' width='10' height='4' fill='{colors[name]}'/>"
            yield _text(x + 14, y + 2, name, 10)


def _states(panel: Json, lines: list[Line], w: float, h: float, window: Window) -> Iterator[str]:
    each = (w - 16) / (window.steps + 1)
    for _, series in lines:
        starts: list[tuple[float, str]] = []
        for at, value in series["values"]:
            text, color = _mapped(panel["fieldConfig"]["defaults"]["mappings"], float(value)) or (value, "#888")
            x = 8 + each * (float(at) - window.begin) / window.step
            yield f"<rect x='{x:.1f}' y='12' width='{each + 0.5:.1f}' height='{h - 40}' fill='{color}'/>"
            if not starts or text != starts[-1][1]:
                starts.append((x + 4, text))
        yield from (_text(x, h / 2, text, 11, "#fff") for x, text in starts)
    yield _text(8, h - 10, f"-{(window.end - window.begin) / 60:.0f} min", 10)
    yield _text(w - 8, h - 10, "now", 10, "", "end")


def _table(panel: Json, found: list[Answer], w: float, h: float) -> Iterator[str]:
    rename = panel["transformations"][-1]["options"]["renameByName"]
    matrix = next((one["options"] for one in panel["transformations"] if one["id"] == "groupingToMatrix"), None)
    if matrix is not None:
        rows = _matrix(found, matrix)
        rename = {name: rename.get(name, name) for row in rows for name in row}
    else:
        rows = _merged(found)
    titles = list(dict.fromkeys(title for name, title in rename.items() if any(name in row for row in rows)))
    cells = [{rename[name]: value for name, value in row.items() if name in rename} for row in rows]
    for order in panel["options"]["sortBy"]:
        cells.sort(key=lambda row: _sortable(row.get(order["displayName"])), reverse=order["desc"])
    settings: dict[str, dict[str, Any]] = {
        one["matcher"]["options"]: {prop["id"]: prop["value"] for prop in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }
    texts = [[_cell(row.get(title), settings.get(title, {})) for title in titles] for row in cells]
    share = [max(len(title), *(len(row[at][0]) for row in texts)) + 2 for at, title in enumerate(titles)]
    lefts = [(w - 8) * sum(share[:at]) / sum(share) + 8 for at in range(len(titles) + 1)]
    for at, title in enumerate(titles):
        yield _text(lefts[at], 12, title, 10, "#3274d9")
    for number, row in enumerate(texts):
        y = 18 + number * 18
        if y + 18 > h:
            break
        yield f"<line x1='4' x2='{w - 4}' y1='{y}' y2='{y}' stroke='#e4e5e6'/>"
        for at, (text, color, link) in enumerate(row):
            wide = lefts[at + 1] - lefts[at] - 4
            if color:
                yield f"<rect x='{lefts[at] - 3:.1f}' y='{y + 1}' width='{wide:.1f}' height='16' fill='{color}'/>"
            ink = "#fff" if color else "#3274d9" if link else ""
            shown = text if len(text) * 6.2 <= wide + 6 else text[: max(1, int(wide / 6.2) - 1)] + "…"
            yield _text(lefts[at], y + 13, shown, 10, ink)


def _matrix(found: list[Answer], options: Json) -> list[dict[str, str | float]]:
    """One row for each value of a label, and a column for each of the other."""
    row_label, column_label = options["rowField"], options["columnField"]
    rows: dict[str, dict[str, str | float]] = {}
    for one in sorted(found[0].series, key=lambda one: [int(one["metric"][it]) for it in (row_label, column_label)]):
        labels = one["metric"]
        row = rows.setdefault(labels[row_label], {f"{row_label}\\{column_label}": labels[row_label]})
        row[labels[column_label]] = float(one["value"][1])
    return list(rows.values())


def _merged(found: list[Answer]) -> list[dict[str, str | float]]:
    """Rows of all queries: those that agree in the labels that all queries have become one, as Grafana's merge does."""
    answered = [answer for answer in found if answer.series]
    common = set.intersection(*({name for one in answer.series for name in one["metric"]} for answer in answered))
    rows: list[dict[str, str | float]] = []
    for answer in answered:
        for one in answer.series:
            value = "Value" if len(found) == 1 else f"Value #{answer.ref}"
            new: dict[str, str | float] = {**one["metric"], value: float(one["value"][1])}
            for row in rows:
                if all(row.get(name) == new.get(name) for name in common) and not _conflict(row, new):
                    row.update(new)
                    break
            else:
                rows.append(new)
    return rows


def _conflict(row: dict[str, str | float], new: dict[str, str | float]) -> bool:
    return any(name in row and row[name] != value for name, value in new.items())


def _cell(value: str | float | None, setting: dict[str, Any]) -> tuple[str, str | None, bool]:
    """Text, background and whether it is a link."""
    if value is None or isinstance(value, str):
        return value or "", None, "links" in setting and bool(value)
    mapped = _mapped(setting.get("mappings", []), value)
    return (mapped[0], mapped[1], False) if mapped else (_number(value, setting.get("unit", "none")), None, False)


def _sortable(value: str | float | None) -> tuple[bool, str | float]:
    return (True, value) if isinstance(value, float) else (False, 0.0)


def _mapped(mappings: list[Json], value: float) -> tuple[str, str] | None:
    for mapping in mappings:
        one = mapping["options"].get(f"{value:g}")
        if one:
            return one["text"], NAMED[one["color"]]
    return None


def _colors(panel: Json, names: Sequence[str]) -> dict[str, str]:
    fixed = {
        one["matcher"]["options"]: NAMED[prop["value"]["fixedColor"]]
        for one in panel["fieldConfig"]["overrides"]
        for prop in one["properties"]
        if prop["id"] == "color"
    }
    return {name: fixed.get(name, PALETTE[index % len(PALETTE)]) for index, name in enumerate(names)}


def _number(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %" if value < 1 else f"{100 * value:.0f} %"
    if unit in {"bytes", "Bps"}:
        size, index = value, 0
        while abs(size) >= 1000 and index < len(BINARY) - 1:
            size, index = size / 1024, index + 1
        return f"{size:.3g} {BINARY[index]}{'/s' if unit == 'Bps' else ''}"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    if unit == "cps":
        return f"{value:.3g} c/s" if value < 1000 else f"{value / 1000:.3g} Kc/s"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _text(x: float, y: float, text: str, size: float, color: str = "", anchor: str = "start") -> str:
    more = f" text-anchor='{anchor}'" if anchor != "start" else ""
    return (
        f"<text x='{x:.0f}' y='{y:.0f}' font-size='{size:.3g}' fill='{color or '#24292e'}'{more}>{escape(text)}</text>"
    )
