"""The report as a page: it stands alone, harms nobody, and can be read without seeing, colour or script."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from xml.etree.ElementTree import Element

import pytest
from msgspec.structs import replace

from hosts.hostile_names import HOSTILE
from made_up.accesses import counted, expected, sampled, with_accesses
from made_up.reports import container, report
from numaudit.api.selection import first
from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import printable
from numaudit.evaluation.access import Access
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.setup import STATES
from numaudit.evaluation.setup.rule import Setup
from numaudit.evaluation.verdicts import REMEDIES, Verdict, VerdictName
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.memory_manager import (
    AdmissibleReport,
    HolderReport,
    MemoryManagerReport,
    MemoryNodeReport,
    MemoryTableReport,
)
from numaudit.report.values import Intended, Report
from numaudit.report.words import display_name
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.page.markup import table
from numaudit.views.page.report_page import report_page, setup_page
from screens.page_reports import hostile, many, setup_rules
from screens.page_text import SVG, lines, parse, text_of

MOST_BYTES = 3 * 1024 * 1024
"""Of the page of 1,000 containers."""


def _verdict(name: VerdictName, reason: str = "for a reason") -> Verdict:
    return Verdict(name, reason, None, (), REMEDIES[name])


def _with(of: Report, *verdicts: Verdict) -> Report:
    """Each container gets one of the verdicts and a promise of node 0."""
    promise = Intended(NodeSet.parse("0"), {"memory": 1 << 30}, CpuSet.parse("0"), NodeSet.parse("0"), None)
    pairs = zip(of.containers, verdicts, strict=True)
    judged = [replace(one, verdict=verdict, intended=promise) for one, verdict in pairs]
    return replace(of, containers=tuple(judged))


def _row(page: str, name: str) -> dict[str, str]:
    """The cells of a container's row, by the title of their column."""
    table = next(one for one in parse(page).iter("table") if one.get("id") == "rows")
    titles = [text_of(one) for one in table.iter("th") if one.get("scope") == "col"]
    row = next(one for one in table.iter("tr") if text_of(one[0]) == name)
    return dict(zip(titles, map(text_of, row), strict=True))


def _all(page: str, tag: str) -> list[Element]:
    return list(parse(page).iter(tag))


# What it says


def test_the_page_begins_with_the_summary() -> None:
    of = report(container())
    assert list(lines(report_page(of)))[:2] == ["h1: numaudit report", f"p: {of.summary.text}"]


def test_the_time_of_the_report_can_be_read_by_people_and_programs() -> None:
    (time,) = _all(report_page(report(taken_at=1_700_000_000.5)), "time")
    assert (text_of(time), time.get("datetime")) == ("2023-11-14 22:13:20 UTC", "2023-11-14 22:13:20Z")


@pytest.mark.parametrize(
    ("host", "taken_at", "title", "said"),
    [
        ("worker-2", 1_700_000_000.5, "numaudit report of worker-2", "p: Taken at TIME; no kubelet on this host"),
        ("worker-2", None, "numaudit report of worker-2", "p: Captured at an unknown time; no kubelet on this host"),
        (None, 1_700_000_000.5, "numaudit report", "p: Taken at TIME; the host is not named; no kubelet on this host"),
        (
            None, None, "numaudit report",
            "p: Captured at an unknown time; the host is not named; no kubelet on this host",
        ),
    ],
)  # fmt: skip
def test_the_page_says_whose_figures_it_has_and_of_when(
    host: str | None, taken_at: float | None, title: str, said: str
) -> None:
    origin = Origin(host, None if taken_at is None else Timestamp(taken_at))
    page = report_page(report(container(), taken_at=1_700_000_000.5), origin)
    assert parse(page).findtext("head/title") == title
    assert {f"h1: {title}", said} <= set(lines(page))
    assert len(_all(page, "time")) == (taken_at is not None)
    assert taken_at is not None or "22:13:20" not in page


def test_a_row_says_what_was_promised_what_is_allowed_and_where_the_bytes_are() -> None:
    of = _with(report(container(), anon={0: 1 << 20, 1: 3 << 20}), _verdict("spilled"))
    assert _row(report_page(of), "prod/db-0/db") == {
        "Container": "prod/db-0/db",
        "Verdict": "spilled",
        "By node": "N0:1Mi N1:3Mi",
        "Promised": "0",
        "CPU nodes": "0",
        "Judged": "4Mi",
        "Misplaced": "?",
        "Remote": "3Mi (75.0%)",
        "Accesses": "not measured",
        "QoS": "Guaranteed",
        "Allowed": "0",
    }


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (sampled(remote=12, memory=48), "25.0% at least used remotely: 12Mi of 48Mi, sampled pages"),
        (counted(0.125), "12.5% of accesses remote, counted"),
        (expected(0.44), "not measured"),
    ],
)
def test_accesses_are_said_of_counts_pages_of_samples_and_nothing_of_expectations(access: Access, said: str) -> None:
    of = report(container())
    one = with_accesses(of.containers[0], access)
    row = _row(report_page(replace(of, containers=(one,))), "prod/db-0/db")
    assert row["Accesses"] == said


def test_what_is_not_known_is_a_question_mark_and_never_zero() -> None:
    of = report(container())
    one = replace(
        of.containers[0], resident=None, judged_bytes=None, remote_bytes=None, allowed_memory_nodes=None,
        allowed_cpu_nodes=None, accesses=(),
    )  # fmt: skip
    row = _row(report_page(replace(of, containers=(one,))), "prod/db-0/db")
    assert [row[title] for title in ("Allowed", "CPU nodes", "Judged", "By node", "Remote")] == ["?"] * 5
    assert row["Accesses"] == "not measured"


def test_a_remedy_for_several_containers_comes_once() -> None:
    of = _with(report(container(7), container(8, "db-1")), _verdict("drifted", "one"), _verdict("drifted", "other"))
    said = list(lines(report_page(of)))
    said = said[: said.index("p: All containers")]
    assert "h3: drifted: 2 containers" in said
    assert "li: prod/db-0/db: one" in said
    assert "li: prod/db-1/db: other" in said
    assert sum(line == f"p: What to do: {REMEDIES['drifted']}" for line in said) == 1


def test_a_finding_names_three_containers_and_folds_the_others_away() -> None:
    page = report_page(many(8, ("drifted",)))
    folded = _all(page, "details")[0]
    assert [text_of(one) for one in folded.iter("summary")] == ["5 more"]
    assert len([one for one in folded.iter("a") if text_of(one).startswith(("prod/", "kube-system/"))]) == 5
    assert "more</summary>" not in report_page(many(3, ("drifted",)))


def test_links_lead_to_each_part() -> None:
    tree = parse(report_page(many(3)))
    (links,) = tree.iter("nav")
    addresses = [f"#{one.get('id')}" for one in tree.iter("h2") if one.get("id")]
    assert [one.get("href") for one in links.iter("a")] == addresses
    assert len(set(addresses)) == len(addresses) > 4


def test_no_two_elements_have_the_same_id() -> None:
    ids = [one.get("id") for one in parse(report_page(many(3))).iter() if one.get("id")]
    assert len(set(ids)) == len(ids) > 5


def test_columns_of_figures_alone_are_flush_right_with_their_titles() -> None:
    tree = parse("<!doctype html>" + table("of nodes", ("Node", "Held", "Pod"), [("0", "1.5Gi", "a"), ("1", "?", "b")]))
    assert [text_of(one) for one in tree.iter() if one.get("class") == "n"] == ["Node", "Held", "0", "1.5Gi", "1", "?"]


def test_findings_and_refused_pods_are_named_with_what_to_do() -> None:
    finding = Finding("stale", "warning", "its pod is gone", "Restart it.", None, None, "db", None, "prod", "db-9")
    refused = HintOutcome(
        "prod", "big", "uid", None, AdmissionOutcome.REJECTED_AFFINITY, "log", None, None, "no", {"memory": 1 << 30}
    )  # fmt: skip
    said = list(lines(report_page(replace(report(container()), findings=(finding,), rejections=(refused,)))))
    start = said.index("h3: warning: stale")
    assert said[start + 1 : start + 3] == ["p: What to do: Restart it.", "li: prod/db-9/db: its pod is gone"]
    assert "tr: prod/big | rejected-affinity | no | memory 1Gi |" in said


def test_a_page_without_findings_says_so() -> None:
    assert "p: No container is misaligned, and nothing else was found." in lines(report_page(report()))


def test_headroom_names_what_is_left_what_is_in_the_way_and_who_holds_it() -> None:
    manager = MemoryManagerReport(
        (MemoryTableReport(0, "memory", 10 << 30, 1 << 30, 9 << 30, 4 << 30, 5 << 30),),
        (MemoryNodeReport(0, NodeSet.parse("0-1"), 1, 5 << 30, 3 << 30, 2 << 30, 1 << 30),),
        (AdmissibleReport(1, 0), AdmissibleReport(2, 5 << 30)),
        0.25,
        (HolderReport(NodeSet.parse("0-1"), "prod", "db-0", "uid", True, {"memory": 4 << 30}),),
    )
    said = list(lines(report_page(replace(report(container()), memory_manager=manager))))
    for line in (
        "p: Largest Guaranteed container that would be admitted now: 5Gi on 2 nodes; fragmentation 25%.",
        "tr: 0 | memory | 0-1 | 1Gi | 9Gi | 4Gi | 5Gi | 5Gi | 3Gi | 2Gi | 1Gi",
        "p: node 0: containers without a promise use 1Gi of the promised memory: reserve more for the system, or limit "
        "pods that are not Guaranteed.",
        "tr: 0-1 | prod/db-0 | memory 4Gi | yes",
    ):
        assert line in said


def test_groups_that_hold_next_to_nothing_themselves_are_counted_and_have_no_row() -> None:
    of = report(container(7), container(8, "web-0"))
    pod = replace(of.containers[1], kind="pod", container=None, verdict=None)
    page = report_page(replace(of, containers=(of.containers[0], pod)))
    assert "p: Left out: 1 cgroup that holds less than 1 MiB of its own; -o json has all." in lines(page)
    assert [text_of(one) for one in _all(page, "th") if text_of(one).startswith("prod/")] == ["prod/db-0/db"]


def test_rows_that_were_not_asked_for_are_counted() -> None:
    whole = report(container(7), container(8, "web-0"))
    assert "p: The options of this report selected 1 of 2 rows (containers and cgroups)." in lines(
        report_page(first(whole, 1))
    )
    assert not [line for line in lines(report_page(whole)) if "asked for" in line]


def test_a_page_of_some_containers_says_nothing_of_the_others() -> None:
    whole = _with(report(container(7), container(8, "web-0")), _verdict("aligned"), _verdict("drifted"))
    some = replace(whole, containers=whole.containers[:1], summary=replace(whole.summary, misaligned=1))
    said = list(lines(report_page(some)))
    assert "p: Nothing was found about the selected 1 of 2 containers and cgroups." in said
    assert not [line for line in said if "No container is misaligned" in line]


def test_the_map_speaks_of_the_containers_that_were_asked_for_alone() -> None:
    page = report_page(first(many(8), 1))
    assert page.count("no container of this report") == 3


# How the node is set up


def _setup(page: str) -> Element:
    return next(one for one in parse(page).iter("section") if one[0].get("id") == "setup")


def test_rules_that_harm_are_in_view_by_area_and_the_others_are_folded() -> None:
    section = _setup(report_page(replace(report(container()), setup=setup_rules())))
    assert [text_of(one) for one in section.findall("h3")] == ["kubelet", "kernel"]
    assert [text_of(one) for one in section.findall("div/div/h4")] == ["warning: rule-warning", "error: rule-error"]
    titles = ["Worth knowing: 1", "Accepted by the settings: 1", "Rules that were not judged: 1", "Rules that hold: 1"]
    assert [text_of(one[0]) for one in section.findall("details")] == titles


def test_a_rule_says_where_it_does_not_hold_why_that_matters_and_what_to_do_and_leads_to_its_source() -> None:
    (group,) = _setup(report_page(replace(report(container()), setup=setup_rules()[-1:]))).findall("div/div")
    assert text_of(group[0]) == "error: rule-error"
    assert [text_of(one) for one in group.iter("p")] == ["why error.", "What to do: Run mend error once."]
    assert [text_of(one) for one in group.iter("li")] == ["work/db-0 of error"] * 4
    assert [text_of(one) for one in group.iter("summary")] == ["1 more"]
    assert [text_of(one) for one in group.iter("code")] == ["mend error"]
    assert [one.get("href") for one in group.iter("a")] == ["https://docs.kernel.org/error.html"]


def test_an_accepted_rule_has_its_reason_and_no_remedy() -> None:
    rules = [one for one in setup_rules() if one.state == "accepted"]
    said = list(lines(report_page(replace(report(container()), setup=tuple(rules)))))
    assert "p: Accepted: work/db-0" in said
    assert not [line for line in said if "mend accepted" in line]


def test_a_report_of_which_all_rules_hold_has_no_section_of_them() -> None:
    assert 'id="setup"' not in report_page(report(container()))


@pytest.mark.parametrize(("left_out", "tone"), [(0, "bad"), (1, "unknown"), (2, "aligned")])
def test_the_page_of_setup_begins_with_the_counts_in_the_colour_of_the_worst_rule(left_out: int, tone: str) -> None:
    found = Setup(setup_rules()[: len(STATES) - left_out])
    page = setup_page(found, Origin("worker-2", None))
    (summary,) = [one for one in _all(page, "p") if "summary" in (one.get("class") or "")]
    assert (text_of(summary), summary.get("class")) == (found.in_words, f"summary {tone}")
    assert next(iter(lines(page))) == "h1: numaudit setup of worker-2"


def test_a_page_of_setup_without_rules_is_a_page_too() -> None:
    said = ["h1: numaudit setup", "p: No fault was found: 0 of 0 rules hold."]
    assert list(lines(setup_page(Setup(()), Origin(None, None))))[:2] == said


# It stands alone


def _loads(page: str) -> set[str]:
    """Every address that the page would fetch or lead to."""
    found = {
        value for one in parse(page).iter() for key, value in one.attrib.items() if key in ("href", "src", "action")
    }
    style = "".join(text for one in _all(page, "style") for text in one.itertext())
    return found | {"".join(pair) for pair in re.findall(r"url\(\s*([^)]*)\)|@import\s+(\S+)", style)}


def test_the_page_loads_nothing_and_leads_nowhere() -> None:
    page = report_page(report(container()))
    assert {address[0] for address in _loads(page)} == {"#"}
    assert "http:" not in page
    assert "https:" not in page


def test_the_policy_lets_our_script_and_style_run_and_nothing_else() -> None:
    page = report_page(report(container()))
    (policy,) = [one.attrib["content"] for one in _all(page, "meta") if one.get("http-equiv") is not None]
    allowed = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert allowed.pop("default-src") == "'none'"
    for tag in ("style", "script"):
        (text,) = ["".join(one.itertext()) for one in _all(page, tag)]
        assert allowed.pop(f"{tag}-src") == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert allowed == {"base-uri": "'none'", "form-action": "'none'"}


def test_nothing_in_the_page_needs_what_the_policy_forbids() -> None:
    keys = {key for one in parse(report_page(report(container()))).iter() for key in one.attrib}
    assert not {key for key in keys if key == "style" or key.startswith("on")}


# Names from outside


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_adds_no_element_no_attribute_and_no_hidden_character(name: str) -> None:
    def shape(page: str) -> list[tuple[str, list[str]]]:
        return [(str(one.tag), sorted(one.attrib)) for one in parse(page).iter()]

    page = report_page(hostile(name))
    plain = "p" * len(printable(name))
    assert shape(page) == shape(report_page(hostile(plain)))
    of_setup = setup_page(Setup(setup_rules(name)), Origin(name, None))
    assert shape(of_setup) == shape(setup_page(Setup(setup_rules(plain)), Origin(plain, None)))
    head, _, body = page.partition("</head>")
    assert name not in head
    text = body.partition("<script>")[0]
    assert text.isprintable()
    page.encode("utf-8")


def test_a_name_of_4096_characters_neither_fills_nor_breaks_the_page() -> None:
    of = report(container(7, "p" * 4096, "c" * 4096, "n" * 4096))
    names = [text_of(one) for one in _all(report_page(of), "th") if one.get("scope") == "row"]
    assert max(map(len, names)) <= 120


# Without eyes, colours or a script


def test_every_cell_of_a_heading_says_what_it_heads_and_every_table_has_a_caption() -> None:
    page = report_page(_with(report(container()), _verdict("drifted")))
    assert {one.get("scope") for one in _all(page, "th")} == {"col", "row"}
    assert all(table[0].tag == "caption" for table in _all(page, "table"))


def test_headings_leave_out_no_level() -> None:
    page = report_page(_with(report(container()), _verdict("drifted")))
    levels = [int(str(one.tag)[1]) for one in parse(page).iter() if re.fullmatch("h[1-6]", str(one.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_drawing_has_a_title_or_is_beside_its_words() -> None:
    drawings = _all(report_page(report(container())), SVG)
    assert len(drawings) > 2
    for one in drawings:
        assert one.get("aria-hidden") == "true" or (one.get("role") == "img" and str(one[0].tag).endswith("title"))


def test_without_the_script_all_rows_are_there_and_no_control_that_does_nothing() -> None:
    page = report_page(report(*(container(id_, f"db-{id_}") for id_ in range(1, 30))))
    tree = parse(page)
    (controls,) = [one for one in tree.iter() if one.get("id") == "controls"]
    assert "hidden" in controls.attrib
    inside = set(controls.iter())
    assert not [one for one in tree.iter() if one.tag in ("button", "input", "select") and one not in inside]
    assert len([one for one in tree.iter("th") if text_of(one).startswith("prod/db-")]) == 29


# Size


@pytest.mark.parametrize("nodes", [2, 8])
def test_the_page_of_1000_misaligned_containers_is_small(nodes: int) -> None:
    of = many(1000, ("spilled",), nodes)
    page = report_page(of)
    assert page.count(display_name(of.containers[999])) >= 2
    assert len(page.encode()) <= MOST_BYTES
