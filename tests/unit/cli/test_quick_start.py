"""What a command imports: most of the time until it answers. tests/bench/bench_start.py measures that time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from numaudit.api.selection import KEYS
from numaudit.cli.main import VERBS, module_of
from numaudit.cli.parameters import SORT_KEYS
from processes.agent_process import PATIENCE

LIBRARIES = {
    "asyncio", "bcc", "google", "grpc", "h11", "http.client", "httpx2", "lightkube", "msgspec", "opentelemetry",
    "prometheus_client", "psutil", "rich", "ssl", "textual", "yaml",
}  # fmt: skip
"""Those that take long to import."""
OPTIONS_NEED = {
    "config", "containermanager.versions", "daemon.signals", "errors", "evaluation.thresholds",
    "encoding.go_syntax", "kernel.files", "kernel.host", "topology.quantity",
}  # fmt: skip
"""What a verb's options may import beside modules of cli/."""
MAIN = "import sys\nfrom numaudit.cli.main import call, main\n"
LOADED = "print(*sorted(sys.modules), file=sys.stderr)\n"


def _imported(program: str, **environment: str) -> set[str]:
    command = [sys.executable, "-c", MAIN + program + LOADED]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, env={**os.environ, **environment}
    )
    return set(done.stderr.split())


def _too_much(imported: set[str]) -> set[str]:
    """Libraries that take long, and our own modules that no option needs."""
    own = {name.removeprefix("numaudit.") for name in imported if name.startswith("numaudit.")}
    packages = {one.partition(".")[0] for one in OPTIONS_NEED}
    options = {name for name in own if name.split(".")[0] == "cli" and not name.endswith("_work")}
    return (imported & LIBRARIES) | (own - options - OPTIONS_NEED - packages)


def test_a_command_without_a_verb_imports_no_verb() -> None:
    imported = _imported("assert call(['--help']) == 0\n")
    assert _too_much(imported) == set()
    assert not any(module_of(verb) in imported for verb in VERBS)


@pytest.mark.parametrize("verb", [*VERBS, "state show", "config check"])
def test_the_help_of_a_verb_imports_only_what_its_options_need(verb: str) -> None:
    assert _too_much(_imported(f"assert call({[*verb.split(), '--help']!r}) == 0\n")) == set()


def test_a_completion_imports_only_what_its_options_need() -> None:
    completed = "from click.shell_completion import shell_complete\n"
    completed += "assert shell_complete(main, {}, 'numaudit', '_NUMAUDIT_COMPLETE', 'bash_complete') == 0\n"
    assert _too_much(_imported(completed, COMP_WORDS="numaudit report --fail-o", COMP_CWORD="2")) == set()


def test_the_words_of_sort_are_those_of_the_columns() -> None:
    assert SORT_KEYS == KEYS


def test_a_report_of_a_host_without_a_kubelet_imports_no_kubelet_and_no_probe(fixtures: Path) -> None:
    imported = _imported(f"assert call(['report', '--root', {str(fixtures / 'huge-pages')!r}]) == 0\n")
    packages = {"kubelet.parsers", "kubelet.questions", "probes", "scenario", "checkpoints.formats", "exporters", "net"}
    loaded = {one for one in packages if f"numaudit.{one}" in imported}
    assert loaded | (imported & LIBRARIES) == {"msgspec", "rich"}
    assert not any(name.startswith(("numaudit.kubelet.sources.poller", "numaudit.api.document")) for name in imported)


def test_an_agent_has_nothing_in_memory_that_only_a_verb_needs() -> None:
    imported = _imported("import numaudit.cli.agent, numaudit.daemon.start, numaudit.daemon.agent\n")
    assert not imported & {
        "rich",
        "textual",
        "grpc",
        "google",
        "opentelemetry",
        "lightkube",
        "httpx2",
        "numaudit.nrt.apiserver.client",
        "numaudit.nrt.apiserver.failures",
        "numaudit.scenario",
    }


def test_an_agent_imports_what_ticks_need_before_the_first_one(fixtures: Path) -> None:
    """An upgrade may replace the package while the agent runs: a module of the new one would not fit."""
    root = str(fixtures / "huge-pages")
    arguments = ["agent", "--root", root, "--listen", "127.0.0.1:0"]
    program = "from numaudit.daemon.agent import Agent\nAgent.run = lambda _: None\n"
    imported = _imported(f"{program}assert call({arguments!r}) == 0\nsys.stderr.flush()\n")
    of_ticks = {f"numaudit.engine.collectors.probes.{one}" for one in ("counts", "hint_faults", "scan_passes")}
    assert of_ticks | {"numaudit.kubelet.intent.intent_of", "numaudit.kubelet.sources.poller"} <= imported
