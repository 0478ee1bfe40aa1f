"""What the largest inputs cost that are read: memory as a multiple of their size, and CPU time a MiB.

Run: python tests/bench/bench_input.py. It fails when one takes more than ten times its largest size, or 2 s a MiB.
Each is made of what is worst for its reader: little of it takes much memory, or much time. Checkpoints are not among
them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

from goals import at_most
from numaudit.config.loading import check
from numaudit.config.yaml_document import LIMITS as DOCUMENT
from numaudit.config.yaml_file import SETTINGS
from numaudit.encoding.yaml_values import read as read_yaml
from numaudit.kubelet.parsers import metrics, pods
from numaudit.kubelet.parsers.config import LIMITS as CONFIGURATION
from numaudit.kubelet.parsers.config import parse_configz, parse_file
from numaudit.kubelet.sources import podresources
from numaudit.kubelet.sources.client import LARGEST_ANSWER as LARGEST_LIST
from processes.input_cost import MIB, MOST, Cost, costs
from short import pick, run

MOST_SECONDS = 2.0
"""A MiB, and one more for a busy machine."""

Make = Callable[[int], bytes]
"""An input of about this size in bytes."""


def read_document(body: bytes) -> object:
    return read_yaml(body, "file.yaml", DOCUMENT)


def read_settings(body: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        Path(file.name).write_bytes(body)
        return check(Path(file.name), {}, [])


def read_configuration(body: bytes) -> object:
    return parse_file(body, "config.yaml")


def read_pod_resources(body: bytes) -> object:
    return podresources.decode(podresources.ListAnswer(body))


def read_pods(body: bytes) -> object:
    return pods.PodReader().read(body)


def filled(piece: str, begin: str = "", end: str = "", most: int | None = None) -> Make:
    """One piece again and again, `most` times at most."""

    def make(size: int) -> bytes:
        times = (size - len(begin) - len(end)) // len(piece)
        return f"{begin}{piece * (times if most is None else min(times, most))}{end}".encode()

    return make


def numbered(piece: str, begin: str, end: str, most: int | None = None) -> Make:
    """As `filled`; %d in the piece is its number."""

    def make(size: int) -> bytes:
        times = (size - len(begin) - len(end)) // (len(piece % 1234567) + 1)
        many = range(times if most is None else min(times, most))
        return f"{begin}{','.join([piece % number for number in many])}{end}".encode()

    return make


def encoded_pods(pod: bytes) -> Make:
    """Pods of protobuf, each of these bytes."""

    def make(size: int) -> bytes:
        length = bytes([len(pod) & 0x7F | 0x80, len(pod) >> 7 & 0x7F | 0x80, len(pod) >> 14]) if pod else b"\0"
        return (b"\n" + length + pod) * max(1, size // (len(pod) + 1 + len(length)))

    return make


_LIST = '{"kind":"PodList","items":['
_POD = '{"metadata":{"uid":"u%d","name":"n","namespace":"x"},"spec":{"containers":['
_RESOURCES = '"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}'
_CONTAINERS = ",".join([f'{{"name":"c{number}",{_RESOURCES}}}' for number in range(4)])
_SERIES = "kubelet_admission_rejections_total"
_ONE_POD = podresources.LARGEST_POD - 100


@dataclass(frozen=True, slots=True)
class Input:
    """One kind of input."""

    name: str
    read: Callable[[bytes], object]
    largest: int
    """Bytes."""
    made: Mapping[str, Make]


INPUTS = (
    Input(
        "scenario",
        read_document,
        DOCUMENT.size,
        {
            "values": filled("abcdefghijklm,", "[", "a]", DOCUMENT.values - 10),
            "lists": filled("[0123456789abc],", "[", "a]", DOCUMENT.values // 2 - 10),
            "keys": numbered("k%d: 1", "{", "}", DOCUMENT.values // 2 - 10),
            "too many": filled("[],", "[", "a]"),
            "wide text": filled("x", "'\U0001f600", "'"),
        },
    ),
    Input(
        "settings",
        read_settings,
        SETTINGS.size,
        {
            "keys": numbered("k%d: 1", "{", "}", SETTINGS.values // 2 - 10),
            "lists": filled("[0123456789abc],", "{probes: [", "]}", SETTINGS.values // 2 - 10),
        },
    ),
    Input(
        "kubelet config",
        read_configuration,
        CONFIGURATION.size,
        {
            "lists": filled("[0123456789abc],", "a: [", "]", CONFIGURATION.values // 2 - 10),
            "too many": filled("[],", "a: [", "]"),
        },
    ),
    Input(
        "/configz",
        parse_configz,
        CONFIGURATION.size,
        {
            "lists": filled("[],", '{"kubeletconfig":{"a":[', "0]}}", CONFIGURATION.values // 2 - 10),
            "too many": filled("[],", '{"kubeletconfig":{"a":[', "0]}}"),
        },
    ),
    Input(
        "/metrics",
        metrics.parse,
        16 * MIB,
        {
            "line ends": filled("\n"),
            "series": filled(f'{_SERIES}{{a="b"}} 1\n'),
            "a long line": filled("ab", f'{_SERIES}{{a="', '"} 1'),
        },
    ),
    Input(
        "/pods",
        read_pods,
        LARGEST_LIST,
        {
            "small pods": numbered(f"{_POD}{_CONTAINERS}]}}}}", _LIST, "]}", pods.MOST_PODS),
            "empty pods": filled("{},", _LIST, "{}]}"),
            "no pods": filled("1,", _LIST, "1]}"),
            "containers": filled('{"name":"c"},', f"{_LIST}{_POD % 1}", '{"name":"c"}]}}]}', pods.MOST_CONTAINERS - 1),
        },
    ),
    Input(
        "PodResources",
        read_pod_resources,
        podresources.LARGEST_ANSWER,
        {
            "empty pods": encoded_pods(b""),
            "containers": encoded_pods(b"\x1a\0" * (_ONE_POD // 2)),
            "CPUs": encoded_pods(b"\x20\1" * (_ONE_POD // 2)),
            "unknown fields": encoded_pods(b"\x30\1" * (_ONE_POD // 2)),
        },
    ),
)


def main() -> None:
    for one in INPUTS:
        inputs = {what: make(pick(one.largest, short=min(one.largest, 1 << 16))) for what, make in one.made.items()}
        found = costs(one.read, inputs)
        for what, cost in found.items():
            _print(f"{one.name}, {what}", cost, len(inputs[what]))
        memory = max(cost.memory for cost in found.values()) / one.largest
        seconds = max(cost.seconds / (len(inputs[what]) / MIB + 1) for what, cost in found.items())
        at_most(f"memory, {one.name}", memory, MOST, "times the largest", short=3 * MOST)
        at_most(f"time, {one.name}", seconds, MOST_SECONDS, "s a MiB", short=3 * MOST_SECONDS)


def _print(name: str, cost: Cost, size: int) -> None:
    seconds = cost.seconds / (size / MIB)
    how = "refused" if cost.refusal else "read"
    print(f"{name:32} {cost.memory / size:6.1f} times {size / MIB:5.2f} MiB, {seconds:5.2f} s a MiB, {how}")


if __name__ == "__main__":
    run(main)
