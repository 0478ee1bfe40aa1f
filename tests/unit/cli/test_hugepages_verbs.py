"""`fit -f`, `headroom` and `report` on a node whose huge pages a Burstable pod has taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.schemas import validate
from hosts.tree_copies import lent
from made_up.scenarios import pod
from numaudit.cli.main import call

Capture = pytest.CaptureFixture[str]
MIB = 1 << 20
ON_NODE_1 = "550Mi"
"""More memory than node 0 has free, so the Memory Manager takes node 1."""


def wanted(folder: Path, huge: str | None, memory: str = ON_NODE_1) -> str:
    given = pod("wanted", memory)
    if huge is not None:
        for kind in ("requests", "limits"):
            given["spec"]["containers"][0]["resources"].setdefault(kind, {})["hugepages-2Mi"] = huge
    for kind in given["spec"]["containers"][0]["resources"].values():
        kind["cpu"] = "100m"
    (folder / "pod.yaml").write_text(yaml.safe_dump(given))
    return str(folder / "pod.yaml")


def answer(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert call([*arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_pod_that_the_map_admits_does_not_fit_where_the_kernel_lacks_its_huge_pages(
    capsys: Capture, fixtures: Path, tmp_path: Path
) -> None:
    arguments = ("fit", "-f", wanted(tmp_path, "8Mi"), "--root", str(fixtures / "hugepages-short"))
    found = answer(capsys, *arguments)
    validate(found, "Explanation")
    assert found["admitted"] is True
    assert found["hugepagesShort"] == [
        {
            "type": "hugepages-2Mi",
            "numaNodes": [1],
            "requestedBytes": 8 * MIB,
            "mapFreeBytes": 32 * MIB,
            "kernelFreeBytes": 4 * MIB,
            "unclaimedBytes": 0,
            "leftBytes": 4 * MIB,
        }
    ]
    answer(capsys, *arguments, "--fail-on-reject", code=1)
    assert call(list(arguments)) == 0
    said = capsys.readouterr().out
    assert "does not fit: the kubelet would admit it (aligned-single), but the kernel cannot give its huge" in said
    assert "it asks for 8Mi, the memory map has 32Mi free, but the kernel has 4Mi." in said


@pytest.mark.parametrize(("huge", "short"), [("4Mi", []), (None, None)])
def test_a_pod_fits_as_long_as_its_huge_pages_are_free_and_one_without_any_is_not_asked_about(
    capsys: Capture, fixtures: Path, tmp_path: Path, huge: str | None, short: list[object] | None
) -> None:
    path, root = wanted(tmp_path, huge), str(fixtures / "hugepages-short")
    found = answer(capsys, "fit", "-f", path, "--root", root, "--fail-on-reject")
    assert (found["admitted"], found["hugepagesShort"]) == (True, short)


def test_headroom_is_the_smaller_of_map_and_kernel(capsys: Capture, fixtures: Path) -> None:
    found = answer(capsys, "headroom", "--root", str(fixtures / "hugepages-short"))
    (of_size,) = found["hugePages"]
    assert of_size["type"] == "hugepages-2Mi"
    assert [(one["numaNodes"], one["mapFreeBytes"], one["leftBytes"]) for one in of_size["rooms"]] == [
        ([0], 32 * MIB, 32 * MIB),
        ([1], 32 * MIB, 4 * MIB),
        ([2], 0, 0),
        ([3], 32 * MIB, 32 * MIB),
    ]
    assert of_size["rooms"][2]["unclaimedBytes"] == 16 * MIB
    assert [one["othersBytes"] for one in of_size["pools"]] == [0, 28 * MIB, 0, 0]
    assert of_size["admissible"][0] == {"nodeCount": 1, "bytes": 32 * MIB}


def test_the_report_names_who_took_the_pages(capsys: Capture, fixtures: Path) -> None:
    found = answer(capsys, "report", "--root", str(fixtures / "hugepages-short"))
    (finding,) = [one for one in found["findings"] if one["name"] == "hugepages-short"]
    assert finding["numaNodes"] == [1]
    assert "used there without a promise by default/bu-numanode/app (28Mi)" in finding["message"]


def _forecast_pods(capsys: Capture, tree: Path, *options: str, code: int) -> dict[str, dict[str, Any]]:
    found = answer(capsys, "forecast", "--root", str(tree), *options, code=code)
    validate(found, "RestartForecast")
    return {one["pod"]: one for one in found["pods"]}


def test_a_pod_that_uses_its_huge_pages_already_needs_no_free_ones(capsys: Capture, fixtures: Path) -> None:
    with lent(fixtures / "hugepages-short") as tree:
        pods = _forecast_pods(capsys, tree, "--kernel-huge-pages", code=0)
        assert pods["gu-huge-numanode"]["fate"] == "kept"


def test_a_pod_whose_other_pages_somebody_took_is_refused_by_the_kernels_count_alone(
    capsys: Capture, fixtures: Path
) -> None:
    """It was promised 16 pages of node 2 and uses 8; of the other 8, 7 are free."""
    with lent(fixtures / "hugepages-short") as tree:
        (tree / "sys/devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages").write_text("7\n")
        assert _forecast_pods(capsys, tree, code=0)["gu-huge-numanode"]["fate"] == "kept"
        pods = _forecast_pods(capsys, tree, "--kernel-huge-pages", code=1)
        refused = {name for name, one in pods.items() if one["fate"] == "refused"}
        found = pods["gu-huge-numanode"]
        assert refused == {"gu-huge-numanode"}
        assert (found["reason"], found["nodesNow"], found["nodesThen"]) == ("kernel-huge-pages", [2], None)
        assert found["message"] == (
            "hugepages-2Mi on node 2: it asks for 32Mi; the kernel has 14Mi free there, and it uses 16Mi"
        )
        assert call(["forecast", "--kernel-huge-pages", "--root", str(tree)]) == 1
        assert "would refuse 1 and keep 5 of its 6 Guaranteed pods" in capsys.readouterr().out


def test_pages_of_another_size_do_not_help(capsys: Capture, fixtures: Path) -> None:
    """Both pages of 1 GiB were promised on node 2, where it uses one and one is free."""
    with lent(fixtures / "page-sizes") as tree:
        assert _forecast_pods(capsys, tree, "--kernel-huge-pages", code=0)["gu-huge-numanode"]["fate"] == "kept"
        (tree / "sys/devices/system/node/node2/hugepages/hugepages-1048576kB/free_hugepages").write_text("0\n")
        found = _forecast_pods(capsys, tree, "--kernel-huge-pages", code=1)["gu-huge-numanode"]
        assert found["message"].startswith("hugepages-1Gi on node 2: it asks for 2Gi; the kernel has 0 free there")


def test_after_a_reboot_the_whole_pool_is_free(capsys: Capture, fixtures: Path) -> None:
    with lent(fixtures / "page-sizes") as tree:
        folder = tree / "sys/devices/system/node/node2/hugepages/hugepages-1048576kB"
        (folder / "free_hugepages").write_text("0\n")
        pods = _forecast_pods(capsys, tree, "--kernel-huge-pages", "--reboot", code=5)
        assert pods["gu-huge-numanode"]["fate"] == "kept"


def test_pools_that_are_not_known_refuse_nobody(capsys: Capture, fixtures: Path) -> None:
    with lent(fixtures / "hugepages-short") as tree:
        (tree / "sys/devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages").unlink()
        assert _forecast_pods(capsys, tree, "--kernel-huge-pages", code=0)["gu-huge-numanode"]["fate"] == "kept"
