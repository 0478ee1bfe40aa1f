"""`numaudit report`: which rows it shows, what it says on standard error, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from made_up.reports import container, report
from numaudit.api.selection import KEYS, first, in_order_of, narrow
from numaudit.cli.main import call
from numaudit.errors import Unavailable
from numaudit.evaluation.findings import Finding
from numaudit.kernel.host import Host
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.report.values import ContainerReport
from screens.printed import table_of

Capture = pytest.CaptureFixture[str]


def _run(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert call(["report", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def _document(capsys: Capture, *arguments: object, code: int = 0) -> dict[str, Any]:
    found = json.loads(_run(capsys, *arguments, "-o", "json", code=code)[0])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def node(fixtures: Path) -> tuple[str, str]:
    return ("--root", str(fixtures / "kubernetes-four-nodes"))


# The worst rows


def test_the_top_rows_are_the_first_ones_and_the_rest_is_counted(capsys: Capture, node: tuple[str, str]) -> None:
    everything = _document(capsys, *node)
    out, err = _run(capsys, *node, "--top", 3, "-o", "json")
    top = json.loads(out)
    assert top["containers"] == everything["containers"][:3]
    more = len(everything["containers"])
    assert err == f"numaudit: 3 of {more} rows shown\n"
    shown = {one["id"] for one in top["containers"]}
    assert {one["containerId"] for one in top["findings"]} <= {*shown, None}
    out, err = _run(capsys, *node, "--top", 3, "-o", "wide")
    assert table_of(out)[-1].startswith(f"3 of {more} rows shown")
    assert len(table_of(out)) == 5
    assert err == ""


@pytest.mark.parametrize("sort", [key for key in KEYS if key != "cpu"])
def test_the_top_rows_of_a_table_are_rows_that_a_table_has(capsys: Capture, node: tuple[str, str], sort: str) -> None:
    def rows(*options: object) -> list[str]:
        table = table_of(_run(capsys, *node, "--sort", sort, *options)[0])[1:]
        return [line.split()[0] for line in table if " shown" not in line and not line.startswith("left out")]

    assert rows("--top", 2) == rows()[:2]


def test_more_top_rows_than_there_are_leave_out_nothing(capsys: Capture, node: tuple[str, str]) -> None:
    assert _run(capsys, *node, "--top", 9999, "-o", "wide")[0].count(" shown") == 0


def test_a_threshold_is_for_all_rows_whatever_is_shown(capsys: Capture, node: tuple[str, str]) -> None:
    codes = [call(["report", *node, "--fail-below", "1", *top]) for top in ([], ["--top", "1"])]
    messages = capsys.readouterr().err
    assert codes == [codes[0]] * 2
    half = len(messages) // 2
    assert messages[:half] == messages[half:]


# Which containers


@pytest.fixture
def misaligned(fixtures: Path) -> tuple[str, str]:
    return ("--root", str(fixtures / "misaligned-node"))


def test_only_containers_with_a_verdict_are_shown_and_the_others_are_counted(
    capsys: Capture, misaligned: tuple[str, str]
) -> None:
    out, err = _run(capsys, *misaligned, "--verdict", "spilled,cpu-remote")
    rows = table_of(out)
    assert [row.split()[0] for row in rows[1:-1]] == ["default/gu-small-numanode/app"]
    assert rows[-1] == "1 of 30 rows shown"
    assert out.startswith("2 of 8 promised containers are misaligned")
    assert err == ""
    out, err = _run(capsys, *misaligned, "-n", "default", "--verdict", "cpu-remote", "-o", "json")
    assert [one["verdict"]["name"] for one in json.loads(out)["containers"]] == ["cpu-remote"]
    assert err == "numaudit: 1 of 30 rows shown\n"


def test_a_name_leaves_out_rows_and_they_are_counted_too(capsys: Capture, misaligned: tuple[str, str]) -> None:
    rows = table_of(_run(capsys, *misaligned, "gu-two-numanode", "-o", "wide")[0])
    assert rows[-1] == f"{len(rows) - 2} of 30 rows shown"
    assert {row.split("/")[1].split()[0] for row in rows[1:-1]} == {"gu-two-numanode"}


def test_a_threshold_is_for_all_verdicts_whatever_is_shown(capsys: Capture, misaligned: tuple[str, str]) -> None:
    err = _run(capsys, *misaligned, "--verdict", "aligned", "--fail-on", "drifted", code=1)[1]
    assert err.startswith("numaudit: 'default/gu-init-numanode/app': drifted: ")


def test_a_verdict_that_there_is_not_is_refused_with_the_nearest(capsys: Capture, misaligned: tuple[str, str]) -> None:
    err = _run(capsys, *misaligned, "--verdict", "spiled", code=2)[1]
    assert err.startswith("numaudit: --verdict: there is no verdict 'spiled'; did you mean spilled? ")


@pytest.mark.parametrize("key", ["judged", "remote", "file"])
def test_rows_come_by_an_amount_the_largest_first(capsys: Capture, node: tuple[str, str], key: str) -> None:
    def amount(one: dict[str, Any]) -> int:
        if key == "file":
            return sum(row["fileBytes"] for row in one["resident"])
        return int(one[f"{key}Bytes"])

    found = _document(capsys, *node, "--sort", key)["containers"]
    amounts = [amount(one) for one in found]
    assert amounts == sorted(amounts, reverse=True)
    by_verdict = _document(capsys, *node)["containers"]
    assert amounts != [amount(one) for one in by_verdict] or key == "remote"
    assert sorted(one["id"] for one in found) == sorted(one["id"] for one in by_verdict)


def test_rows_come_by_name(capsys: Capture, node: tuple[str, str]) -> None:
    lines = table_of(_run(capsys, *node, "--sort", "name")[0])[1:-1]
    names = [line.split()[0] for line in lines]
    assert names == sorted(names)
    assert len(names) > 5


def test_the_first_rows_are_those_of_the_order(capsys: Capture, node: tuple[str, str]) -> None:
    (largest,) = _document(capsys, *node, "--sort", "judged", "--top", 1)["containers"]
    assert largest["judgedBytes"] == max(one["judgedBytes"] for one in _document(capsys, *node)["containers"])


def test_what_is_not_known_comes_last_and_misplaced_bytes_first() -> None:
    def held(id_: int, judged: int | None, aligned: int | None) -> ContainerReport:
        (one,) = report(container(id_, pod=f"pod-{id_}")).containers
        return replace(one, judged_bytes=judged, aligned_bytes=aligned)

    rows = (held(1, 100, None), held(2, 100, 90), held(3, None, None), held(4, 50, 5))
    whole = replace(report(container()), containers=rows)
    assert [one.id for one in in_order_of(whole, "misplaced").containers] == [4, 2, 1, 3]
    assert [one.id for one in in_order_of(whole, "judged").containers] == [1, 2, 4, 3]


def test_cpu_time_is_an_order_only_where_it_is_measured(capsys: Capture, node: tuple[str, str]) -> None:
    reasons = (((), "orders by what is measured: add --duration 10s"), (node, "this capture has one reading"))
    for where, todo in reasons:
        assert todo in _run(capsys, *where, "--sort", "cpu", code=2)[1]
    ran = report(*(container(id_, pod=f"pod-{id_}") for id_ in (3, 9, 5)))
    assert [one.id for one in in_order_of(ran, "cpu").containers] == [9, 5, 3]


@pytest.mark.parametrize("which", ["no-such", "-n"])
def test_what_matches_nothing_is_refused(capsys: Capture, node: tuple[str, str], which: str) -> None:
    words = ("-n", "no-such") if which == "-n" else (which,)
    out, err = _run(capsys, *words, *node, code=2)
    assert out == ""
    assert err.startswith("numaudit: no container ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gu-smal-numanode",), "no container matches 'gu-smal-numanode'; did you mean gu-small-numanode, "),
        (("toobig",), "no container matches 'toobig'; gu-toobig-numanode, default/gu-toobig-numanode have it in the"),
        (("-n", "defualt"), "no container is in namespace 'defualt'; did you mean default?"),
        (("-n", "default", "nobody"), "no container matches 'nobody'; `numaudit report -o wide` lists all 30 of them"),
    ],
)
def test_names_that_are_near_are_offered(
    capsys: Capture, node: tuple[str, str], words: tuple[str, ...], message: str
) -> None:
    assert _run(capsys, *words, *node, code=2)[1].startswith(f"numaudit: {message}")


def test_a_namespace_has_its_pods_and_its_refused_pods_only(capsys: Capture, node: tuple[str, str]) -> None:
    found = _document(capsys, "-n", "default", *node)
    assert {one["namespace"] for one in found["containers"]} == {"default"}
    assert {one["pod"] for one in found["rejections"]} == {"gu-toobig-numanode", "gu-cross-numanode"}


def test_refusals_and_findings_follow_the_filter(capsys: Capture, node: tuple[str, str]) -> None:
    found = _document(capsys, "gu-two-numanode", *node)
    assert {one["pod"] for one in found["containers"]} == {"gu-two-numanode"}
    assert found["rejections"] == []
    found = _document(capsys, "default/gu-t*", *node)
    assert {one["pod"] for one in found["containers"]} == {"gu-two-numanode"}
    assert {one["pod"] for one in found["rejections"]} == {"gu-toobig-numanode"}


def test_a_finding_about_another_container_is_left_out_and_one_about_the_node_stays() -> None:
    def finding(name: str, container: int | None, pod: str | None) -> Finding:
        return Finding(name, "warning", "m", "r", container, pod, None, None, None, None)

    db, web = container(7), container(8, pod="web-0", name="web")
    findings = (
        finding("of-the-node", None, None), finding("of-db", 7, db.pod_uid), finding("of-web", 8, web.pod_uid),
        finding("of-web-that-does-not-run", None, web.pod_uid),
    )  # fmt: skip
    whole = replace(report(db, web), findings=findings)
    assert [one.name for one in narrow(whole, "db-0").findings] == ["of-the-node", "of-db"]
    assert [one.name for one in first(whole, 1).findings] == ["of-the-node", "of-db"]


# Measuring


def _session(*refusals: ProbeRefusal) -> Session:
    return Session({str(number): refusal for number, refusal in enumerate(refusals)})


V1 = ProbeRefusal(Reason.CGROUP_V1, "cgroup hybrid")
RIGHTS = ProbeRefusal(Reason.NO_PERMISSION, "bpf(2) is refused")


@pytest.mark.parametrize(
    ("user", "refusals", "order"),
    [
        (0, (V1, V1), ["cgroup hybrid"]),
        (0, (V1, RIGHTS), ["bpf(2) is refused", "cgroup hybrid"]),
        (1000, (V1,), ["user id 1000 is not root", "cgroup hybrid"]),
        (1000, (V1, RIGHTS), ["bpf(2) is refused", "cgroup hybrid"]),
    ],
)
def test_where_nothing_can_be_measured_rights_are_named_first_then_the_mode(
    monkeypatch: pytest.MonkeyPatch, user: int, refusals: tuple[ProbeRefusal, ...], order: list[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("numaudit.probes.reasons.is_capable", lambda: user == 0)
    with pytest.raises(Unavailable, match=r"^nothing can be measured here: ") as raised:
        _session(*refusals).require_any()
    message = str(raised.value)
    places = [message.index(one) for one in order]
    assert places == sorted(places)
    assert message.count("cgroup hybrid") == ("cgroup hybrid" in order)


def test_where_nothing_can_be_measured_the_report_says_why_and_has_the_rest(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, captured: Callable[[str], Host]
) -> None:
    tree = captured("eight-nodes")
    monkeypatch.setattr("numaudit.cli.options.Host.here", lambda: tree)
    monkeypatch.setattr("numaudit.cli.messages.wait", _never)
    plain, _ = _run(capsys)
    out, err = _run(capsys, "--duration", "1h")
    assert out.splitlines()[:-1] == plain.splitlines()[:-1]
    assert err.startswith("numaudit: nothing can be measured here: ")
    assert err.endswith("; this is the report without a measurement\n")


def _never(seconds: float, what: str) -> NoReturn:
    raise AssertionError(f"waited {seconds} s for {what}")


def test_ctrl_c_ends_a_measurement_and_shows_what_there_is(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, captured: Callable[[str], Host]
) -> None:
    def interrupt(_seconds: float, _what: str) -> NoReturn:
        raise KeyboardInterrupt

    tree = captured("eight-nodes")
    monkeypatch.setattr("numaudit.cli.options.Host.here", lambda: tree)
    monkeypatch.setattr("numaudit.cli.messages.wait", interrupt)
    monkeypatch.setattr(Session, "require_any", lambda _: None)
    out, err = _run(capsys, "--duration", "1h", "-o", "json", code=130)
    assert len(json.loads(out)["containers"]) == 10
    assert err == "numaudit: interrupted; this is what was measured until now\n"


def test_a_name_that_begins_nearly_as_the_given_one_is_near(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    assert call(["report", "gu-xmall", "--root", str(fixtures / "kubernetes-four-nodes")]) == 2
    assert "did you mean gu-small-numanode" in capsys.readouterr().err


# What to do where one node has nothing to show


@pytest.mark.parametrize(
    ("started", "on_path", "commands"),
    [
        (".venv/bin/numaudit", False, ("make capture HOST=root@server", "make lab", ".venv/bin/numaudit doctor")),
        ("/opt/numa audit/numaudit", False, ("'/opt/numa audit/numaudit' capture --from root@server host.tar.xz",)),
        ("/usr/bin/numaudit", True, ("numaudit capture --from root@server host.tar.xz", "numaudit doctor")),
    ],
)
def test_a_report_of_one_node_ends_with_commands_that_run_as_they_stand(
    started: str,
    on_path: bool,
    commands: tuple[str, ...],
    capsys: Capture,
    fixtures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = fixtures / "single-node-hybrid"
    (tmp_path / "Makefile").touch()
    program = tmp_path / "bin/numaudit"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setenv("PATH", str(program.parent) if on_path else "/nowhere")
    out = " ".join(_run(capsys, "--root", root)[0].split())
    shown = out[out.index("To see a host with several nodes") :]
    assert all(f"`{one}`" in shown for one in commands)
    assert ("make" in shown) is (started == ".venv/bin/numaudit")
