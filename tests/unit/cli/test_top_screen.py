"""`numaudit top`: what its keys do, on a captured node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.events import Key

from hosts.hostile_names import HOSTILE
from made_up.accesses import counted
from made_up.reports import container, report
from numaudit.cli.observe.report_work import ReportSelection
from numaudit.evaluation.access import measured
from numaudit.views.top.head import KEYS
from numaudit.views.top.news import TickBegan, TickFigures
from screens.top_screen import Screen, Told, captured, screen

ROWS = "10 containers; 8 sandboxes, 8 pods, 4 other cgroups"
CPU_REMOTE, DRIFTED = "default/gu-small-numanode/app", "default/gu-init-numanode/app"


def _on(root: Path, steps: Callable[[Screen], Awaitable[None]], width: int = 120, height: int = 50) -> bool | None:
    """Do the steps once the first report is there; if they end the screen, whether that was an interruption."""

    async def run() -> bool | None:
        async with screen(captured(root), width, height) as shown:
            await shown.shows("CONTAINER")
            await steps(shown)
        return shown.top.return_value

    return asyncio.run(run())


@pytest.fixture
def node(fixtures: Path) -> Path:
    return fixtures / "misaligned-node"


def test_the_screen_begins_with_the_sentence_and_the_worst_container(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        lines = shown.lines()
        assert lines[0].split("  ", 3)[:3] == ["numaudit top", "captured-tree", ROWS]
        assert lines[0].endswith("  captured")
        assert lines[1].startswith("2 of 8 promised containers are misaligned; worst: default/gu-small-numanode/app")
        assert shown.chosen() == CPU_REMOTE
        assert lines[-1].endswith("1 of 11, 19 small folded")

    _on(node, steps)


def test_name_and_verdicts_narrow_rows_and_summary_but_not_the_nodes(node: Path) -> None:
    async def nodes_and_rows(view: ReportSelection) -> tuple[list[str], list[str], str]:
        async with screen(captured(node, view), 120, 40) as shown:
            await shown.shows("CONTAINER")
            nodes = [line for line in shown.lines() if line[:1].isdecimal() and "[" in line]
            return nodes, shown.rows(), shown.lines()[1]

    nodes, rows, said = asyncio.run(nodes_and_rows(ReportSelection("gu-two-numanode", "default", ("aligned",))))
    assert rows == [">default/gu-two-numanode/a", " default/gu-two-numanode/b"]
    assert said == "All 2 promised containers are aligned; access not measured"
    assert nodes == asyncio.run(nodes_and_rows(ReportSelection()))[0]


def test_arrows_choose_a_row_and_stop_at_the_ends(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("up", "down", "down", "up")
        assert shown.chosen() == DRIFTED
        for last, first, down in (("end", "home", "down"), ("G", "g", "j")):
            await shown.press(last, down)
            assert "11 of 11" in shown.lines()[-1]
            await shown.press("k")
            assert "10 of 11" in shown.lines()[-1]
            await shown.press(first, "up")
            assert shown.chosen() == CPU_REMOTE

    _on(node, steps)


def test_the_chosen_row_stays_in_sight(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("pagedown", "down", "down", "pagedown", "pageup")
        assert shown.chosen()
        await shown.press("end")
        assert shown.rows()[-1].startswith(">")

    _on(node, steps, 80, 24)


def test_the_choice_stays_with_its_container_when_rows_move(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("down", "s")
        assert "s sort: judged" in shown.lines()[-1]
        assert shown.chosen() == DRIFTED
        assert shown.rows()[0] == " /system"
        await shown.press("r")
        assert shown.chosen() == DRIFTED
        assert "s sort: judged reversed" in shown.lines()[-1]
        await shown.press("r", "S", "S")
        assert "s sort: name" in shown.lines()[-1]

    _on(node, steps)


def test_a_filter_narrows_the_rows_as_it_is_typed(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("slash")
        await shown.type("ali")
        assert all("aligned" in line for line in shown.lines() if "default/" in line and "worst" not in line)
        await shown.type("gned SIDE")
        assert shown.rows() == [">default/gu-sidecar-numanode/app", " default/gu-sidecar-numanode/side"]
        await shown.press("down")
        assert shown.chosen() == "default/gu-sidecar-numanode/side"
        await shown.press("enter")
        assert "filter: aligned SIDE" in shown.lines()[-1]
        assert "2 of 2 (30 in all)" in shown.lines()[-1]
        await shown.press("escape")
        assert "of 11, 19 small folded" in shown.lines()[-1]
        assert shown.chosen() == "default/gu-sidecar-numanode/side"

    _on(node, steps)


def test_letters_of_a_filter_are_no_commands(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.type("/qsrp h?-+/")
        assert "filter: qsrp h?-+/" in shown.text()
        assert shown.rows() == []
        await shown.press("enter")
        assert "0 of 0 (30 in all)" in shown.lines()[-1]
        await shown.press("enter")  # there is nothing to open
        await shown.press("escape")
        assert shown.chosen() == CPU_REMOTE

    assert _on(node, steps) is None


def test_keys_that_come_at_once_are_taken_in_their_order(node: Path) -> None:
    """As over a slow line: the letters after `/` are the filter's, although it is not drawn yet."""

    async def steps(shown: Screen) -> None:
        for key in ("slash", "s", "i", "d", "e", "enter", "enter"):
            shown.top.post_message(Key(key, key if len(key) == 1 else None))
        await shown.shows("default/gu-sidecar-numanode/app", "  QoS ")

    _on(node, steps)


def test_small_groups_are_folded_until_they_are_asked_for(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        assert not any("(sandbox)" in row for row in shown.rows())
        await shown.press("a")
        assert len([row for row in shown.rows() if "(sandbox)" in row]) == 8
        assert "1 of 30" in shown.lines()[-1]
        await shown.press("a")
        assert "1 of 11, 19 small folded" in shown.lines()[-1]
        await shown.type("/sandbox")
        assert len(shown.rows()) == 8, "a filter finds what is folded"

    _on(node, steps)


def test_the_mouse_chooses_opens_scrolls_and_sorts(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.click(5, DRIFTED)
        assert shown.chosen() == DRIFTED
        await shown.wheel(1)
        assert "5 of 11" in shown.lines()[-1]
        await shown.wheel(-1)
        assert "2 of 11" in shown.lines()[-1]
        judged = shown.column("JUDGED")
        await shown.click(judged, "JUDGED")
        assert "▼JUDGED" in shown.text()
        assert shown.rows()[0] == " /system"
        assert shown.chosen() == DRIFTED
        await shown.click(judged, "JUDGED")
        assert "▲JUDGED" in shown.text()
        await shown.click(1, " CONTAINER")
        assert "CONTAINER▲" in shown.text()
        await shown.click(shown.column("ALLOWED"), "ALLOWED")
        assert "ALLOWED▼" in shown.text()
        assert shown.rows()[-1] == " default/gu-sidecar-numanode/side", "node 3, by letter"
        await shown.click(5, DRIFTED, times=2)
        await shown.shows("  QoS ", f"{DRIFTED}: drifted")

    _on(node, steps)


def test_the_column_that_sorts_is_marked_and_never_left_out(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        assert "VERDICT▼" in shown.text()
        assert "FILE" not in shown.text()
        await shown.press("s", "s", "s", "s")
        assert "▼FILE" in shown.text()
        await shown.press("r")
        assert "▲FILE" in shown.text()

    _on(node, steps, 80, 24)


@pytest.mark.parametrize("key", ["escape", "q", "enter"])
def test_keys_scroll_a_page_and_go_back(node: Path, key: str) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("enter")
        await shown.shows("  QoS ")
        first = shown.lines()[1]
        for down, up in (("j", "k"), ("down", "up"), ("pagedown", "pageup"), ("G", "g"), ("end", "home")):
            await shown.press(down)
            await shown.sees(lambda: shown.lines()[1] != first)
            await shown.press(up)
            await shown.sees(lambda: shown.lines()[1] == first)
        await shown.press(key)
        assert shown.chosen() == CPU_REMOTE

    assert _on(node, steps, 100, 30) is None


def test_an_open_container_lists_its_processes(fixtures: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("enter")
        await shown.has_read()
        await shown.press("G")
        await shown.shows("processes", "302  ?        ?", "N1 69Mi, N0 5Mi", "neither its `stat` nor its `status`")

    _on(fixtures / "huge-pages", steps)


def test_the_help_fits_on_one_screen(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("question_mark")
        await shown.shows("not measured here")
        assert len(shown.top._page.lines) <= 22

    _on(node, steps, 80, 24)


def test_a_tick_that_runs_is_said_and_keys_answer_meanwhile() -> None:
    of = report(container(1, "pod-1"), container(2, "pod-2"))

    async def run() -> None:
        feed = Told(of)
        async with screen(feed) as shown:
            await shown.shows("1 of 2")
            feed.tell(TickBegan())
            await shown.shows("reading ...")
            await shown.press("down")
            assert shown.chosen() == "prod/pod-2/db"
            feed.tell(TickFigures(of, of))
            await shown.sees(lambda: "reading ..." not in shown.text())

    asyncio.run(run())


def test_the_remote_share_of_a_container_is_drawn_over_its_ticks() -> None:
    of = report(container(1, "pod-1"))
    (one,) = of.containers
    ticks = [replace(one, judged_bytes=100, remote_bytes=remote) for remote in (0, 1, 50, 100)]
    ticks.append(replace(one, remote_bytes=None))

    async def run() -> None:
        feed = Told(replace(of, containers=(ticks[0],)))
        async with screen(feed, 120) as shown:
            await shown.shows("1 of 1")
            for tick in ticks[1:]:
                then = replace(of, containers=(tick,))
                feed.tell(TickFigures(then, then))
            await shown.shows("REMOTE LATELY", "▁▂▅█")
            row = next(line for line in shown.top.screen._compositor.render_strips() if "▁▂▅█" in line.text)
            assert [one.style.reverse for one in row if one.style and "█" in one.text] == [None], "full is not empty"
            with_accesses = replace(of, containers=(replace(one, measured=measured((counted(0.5),))),))
            feed.tell(TickFigures(with_accesses, with_accesses))
            await shown.shows("REMOTE ACCESSES LATELY")
            feed.tell(TickFigures(then, then))
            await shown.shows("▁▂▅█")
            await shown.press("enter")
            await shown.shows("▁▂▅█", "0 to 100 % of its bytes remote in 7 ticks")

    asyncio.run(run())


def test_what_never_changes_has_no_last_ticks(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        assert "LATELY" not in shown.text()
        lines = shown.lines()
        nodes = lines[next(at for at, line in enumerate(lines) if line.startswith("NODE")) :][1:5]
        assert {len(line) for line in nodes} == {200}, "the bars take the room"

    _on(node, steps, 200)


def test_a_container_is_opened_and_closed(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("down", "enter")
        await shown.shows(DRIFTED, "  QoS ", "  Recomputed with", "drifted", "  cpuset: its own cpuset.mems")
        await shown.press("down", "down")
        assert not shown.lines()[1].startswith(DRIFTED)
        await shown.press("escape")
        assert shown.chosen() == DRIFTED
        await shown.press("enter", "enter")
        assert shown.chosen() == DRIFTED

    _on(node, steps, 100, 30)


def test_the_help_names_every_key_and_column(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("enter", "h", "escape")
        await shown.shows("  QoS ")  # the page from before
        await shown.press("escape")
        for key in ("h", "question_mark"):
            await shown.press(key)
            for word in (*(one.label for one in KEYS), "MISPLACED", "WHY"):
                assert word in shown.text()
            await shown.press(key)
            assert shown.chosen() == CPU_REMOTE

    _on(node, steps)


@pytest.mark.parametrize(("key", "interrupted"), [("q", False), ("ctrl+c", True)])
def test_the_key_that_ends_it_says_how(node: Path, key: str, interrupted: bool) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press(key)

    assert _on(node, steps) is interrupted


def test_ctrl_c_ends_it_also_while_a_filter_is_typed(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("slash", "x", "ctrl+c")

    assert _on(node, steps) is True


def test_a_captured_tree_has_no_pause_and_no_interval(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("p", "plus", "minus", "space")
        assert shown.lines()[0].endswith("  captured")

    _on(node, steps)


def test_the_help_says_that_nothing_is_measured_of_a_captured_tree(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("question_mark")
        await shown.shows("not measured here", "accesses and CPU time: this is a captured tree")

    _on(node, steps)


def test_another_size_draws_all_again(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        assert "JUDGED" in shown.text()
        await shown.resize(60, 15)
        await shown.sees(lambda: "JUDGED" not in shown.text() and "1 of 11" in shown.lines()[14])
        assert all(len(line) <= 60 for line in shown.lines()), shown.text()
        for width, height in ((20, 6), (10, 4), (2, 1)):
            await shown.resize(width, height)
        await shown.press("question_mark")
        await shown.resize(100, 20)
        await shown.shows("move, or scroll a page")

    _on(node, steps, 160)


def test_a_terminal_without_unicode_gets_none(node: Path) -> None:
    async def run() -> None:
        async with screen(captured(node), 60, ascii_only=True) as shown:
            await shown.shows("CONTAINER")
            assert "~" in shown.text()
            assert shown.text().isascii()

    asyncio.run(run())


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 4096, "\u05d0" * 300, "\u4e2d\u6587" * 100, "[bold red]a[/]"])
def test_a_hostile_name_steers_nothing_and_breaks_no_line(name: str) -> None:
    of = report(container(7, name, name, name), container(8))

    async def run() -> None:
        async with screen(Told(of)) as shown:
            await shown.shows("CONTAINER", "prod/db-0/db")
            seen = [shown.lines()]
            await shown.press("enter")
            await shown.shows("  QoS ")
            seen.append(shown.lines())
        for lines in seen:
            assert len(lines) == 24
            assert all(line.isprintable() and cell_len(line) <= 80 for line in lines)

    asyncio.run(run())


def test_markup_in_a_name_is_text() -> None:
    async def run() -> None:
        async with screen(Told(report(container(7, "[bold]", "[red]a[/]")))) as shown:
            await shown.shows("prod/[bold]/[red]a[/]")

    asyncio.run(run())


def test_the_choice_goes_to_the_next_row_when_its_container_has_gone() -> None:
    of = [report(*(container(number, f"pod-{number}") for number in ids)) for ids in ((1, 2, 3), (1, 3), (3, 2, 1), ())]

    async def run() -> None:
        feed = Told(of[0])
        async with screen(feed) as shown:
            await shown.shows("1 of 3")
            await shown.press("down")
            assert shown.chosen() == "prod/pod-2/db"
            for then, chosen in ((of[1], "prod/pod-3/db"), (of[2], "prod/pod-3/db")):
                feed.tell(TickFigures(then, then))
                await shown.shows(f"of {len(then.containers)}")
                assert shown.chosen() == chosen
            feed.tell(TickFigures(of[3], of[3]))
            await shown.shows("0 of 0")
            await shown.press("down", "enter", "up")

    asyncio.run(run())
