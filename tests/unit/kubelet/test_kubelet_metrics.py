"""The kubelet's own counters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubelets.steps import Step
from numaudit.intent.kubelet import KubeletSeries
from numaudit.kubelet.parsers.metrics import LONGEST_LINE, KubeletMetrics
from numaudit.kubelet.parsers.metrics import parse as parse_bytes
from processes.input_cost import MIB, MOST, costs

NAME = "kubelet_admission_rejections_total"
LARGEST = 16 * MIB


def parse(text: str) -> KubeletMetrics:
    return parse_bytes(text.encode())


def _series(name: str, **labels: str) -> KubeletSeries:
    return KubeletSeries(name, tuple(labels.items()))


def test_the_counters_of_a_recorded_kubelet_are_read() -> None:
    found = parse(Step("standalone-restricted/2-more").read("metrics.txt").decode())
    assert found.counters[_series("kubelet_admission_rejections_total", reason="UnexpectedAdmissionError")] == 1
    assert found.counters[_series("kubelet_topology_manager_admission_errors_total")] == 1
    assert found.counters[_series("kubelet_memory_manager_pinning_errors_total")] == 1
    assert found.counters[_series("kubelet_memory_manager_pinning_requests_total")] == 4
    assert not any(one.name.startswith("kubelet_topology_manager_admission_duration") for one in found.counters)


def test_the_version_is_that_of_the_build() -> None:
    text = 'kubernetes_build_info{build_date="x",git_version="v1.36.2",go_version="go1.26"} 1\n'
    assert parse(text).version == "v1.36.2"
    assert parse("").version is None


def test_labels_are_read_as_their_values() -> None:
    line = r'kubelet_admission_rejections_total{reason="a \"b\" \\n, c=\n",zone=""} 2'
    (series,) = parse(line).counters
    assert series == _series("kubelet_admission_rejections_total", reason='a "b" \\n, c=\n', zone="")


def test_values_that_are_no_numbers_and_other_lines_are_passed_over() -> None:
    name = "kubelet_memory_manager_pinning_errors_total"
    assert parse(f"# HELP {name} x\n{name} NaN\n{name} \n{name}\n{name} +Inf\n{name}{{").counters == {}
    assert parse(f"{name} 3 1795214302000").counters == {_series(name): 3}


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    parse(text)
    for value in parse("kubelet_memory_manager_pinning_errors_total" + text).counters.values():
        assert value == value


def test_the_largest_answers_cost_little() -> None:
    pieces = {
        "line ends": "\n",
        "short lines": "ab\n",
        "series": f'{NAME}{{a="b"}} 1\n',
        "no value": f'{NAME}{{a="b"\n',
    }
    texts = {what: (one * (LARGEST // len(one))).encode() for what, one in pieces.items()}
    long = {
        what: f'{NAME}{{a="{one * (LARGEST // 2)}"}} 1'.encode()
        for what, one in {"escapes": "\\n", "text": "ab"}.items()
    }
    found = costs(parse_bytes, {**texts, **long})
    assert {what: one.memory for what, one in found.items() if one.memory > MOST * LARGEST} == {}
    assert {what: one.seconds for what, one in found.items() if one.seconds > 2 * LARGEST // MIB} == {}


def test_a_long_line_is_passed_over_and_the_next_is_read() -> None:
    (series,) = parse(f'{NAME}{{a="{"x" * LONGEST_LINE}"}} 1\n{NAME}{{a="b"}} 2\r\n').counters
    assert series == _series(NAME, a="b")
