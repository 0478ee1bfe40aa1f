"""`numaudit report --processes`: what it needs, what it reads, and what it hides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numaudit.cli.main import call


def test_processes_of_all_containers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", "--processes"]) == 2
    assert "name the containers" in capsys.readouterr().err


def test_a_name_that_is_not_there_is_an_error_as_without_processes(
    capsys: pytest.CaptureFixture[str], fixtures: Path
) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), "nobody", "--processes"]) == 2
    assert "no container matches 'nobody'" in capsys.readouterr().err


def test_processes_of_other_containers_are_not_read(
    capsys: pytest.CaptureFixture[str], fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numaudit.kernel.memory import numa_maps  # noqa: PLC0415
    from numaudit.kernel.memory.numa_maps import Mapping  # noqa: PLC0415

    read, asked = numa_maps.read, set[int]()

    def counted(host: object, pid: int) -> tuple[Mapping, ...]:
        asked.add(pid)
        return read(host, pid)  # type: ignore[arg-type]

    monkeypatch.setattr(numa_maps, "read", counted)
    assert call(["report", "--root", str(fixtures / "ranks"), "job_77", "--processes", "-o", "json"]) == 0
    assert asked == {5101, 5102}


def test_without_the_option_no_thread_is_read(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), "vllm-0", "-o", "json"]) == 0
    (container, *_) = json.loads(capsys.readouterr().out)["containers"]
    assert (container["processes"], container["expectedBasis"]) == (None, None)


def test_names_of_processes_and_threads_are_hidden_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], fixtures: Path
) -> None:
    assert call(["report", "--root", str(fixtures / "ranks"), "vllm-0", "--processes", "-o", "json", "--redact"]) == 0
    text = capsys.readouterr().out
    assert "VLLM" not in text
    assert "nccl" not in text
    assert '"policy":"bind:1"' in text.replace(" ", "")
