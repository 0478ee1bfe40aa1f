"""Whatever words a verb is given: a message and an exit code that says whose fault it is, never an internal error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import command_tree
from numaudit.cli.main import VERBS, call
from numaudit.config.settings import KEYS
from processes.agent_process import PATIENCE

VALUES = (
    "",
    " ",
    "-1",
    "9" * 5000,
    "1e400",
    "nan",
    "a\0b",
    "http://a b",
    f"http://{'a' * 64}.example:1",
    "http://a..b",
    "http://host:99999",
    "http://[::1",
    "x" * 5000,
    "/" + "x/" * 3000,
    "\udcff\udc80",
    "\N{FULLWIDTH DIGIT ONE}",
    "=",
    "a=b",
    "../..",
    "%s%n",
)
KEPT = ("run", "assert", "agent", "top", "capture")
"""They start commands, wait, measure or write; their options are tried with a word that ends them before."""
OPTIONS = [
    (path, one.opts[0])
    for path, command in command_tree.commands()
    for one in command.params
    if isinstance(one, click.Option) and not one.is_flag
]
VERBS_WITH_WORDS = [
    path
    for path, command in command_tree.commands()
    if path and path[0] not in KEPT and any(isinstance(one, click.Argument) for one in command.params)
]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMAUDIT_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)


def _try(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    code = call(list(words))
    err = capsys.readouterr().err
    assert code in (0, 1, 2, 3, 5, 125), (words, err[:300])
    assert "internal error" not in err and "Traceback" not in err
    assert len(err) < 20_000


@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=[" ".join((*path, option)) for path, option in OPTIONS])
def test_any_value_of_an_option_is_taken_or_refused(
    capsys: pytest.CaptureFixture[str], fixtures: Path, path: tuple[str, ...], option: str
) -> None:
    command = dict(command_tree.commands())[path]
    has_root = any(one.name == "root" for one in command.params) and option != "--root"
    for value in VALUES:
        ends = ["--no-such-option"] if path[:1] and path[0] in KEPT else []
        root = ["--root", str(fixtures / "memory-only-node")] if has_root else []
        _try(capsys, *path, option, value, *root, *ends)


@pytest.mark.parametrize("path", VERBS_WITH_WORDS, ids=" ".join)
def test_any_word_is_taken_or_refused(capsys: pytest.CaptureFixture[str], path: tuple[str, ...]) -> None:
    for value in VALUES:
        _try(capsys, *path, value)
        _try(capsys, *path, "--", value, value)


SCENARIO = """
apiVersion: numaudit/v1
kind: Scenario
machine:
  nodes: [{id: %(id)s, cpus: %(cpus)s, memory: %(memory)s, hugepages: {%(size)s: %(pages)s}, distances: %(distances)s}]
  devices: {a.b/c: {d: %(node)s}}
kubelet: {memoryManagerPolicy: Static, reservedMemory: %(reserved)s, cpuManagerReconcilePeriod: %(period)s}
state: {memory: %(file)s}
kubernetesVersion: %(version)s
steps: [{admit: {metadata: {name: %(name)s}, spec: {containers: [{name: a, resources: {limits: {cpu: %(cpu)s}}}]}}}]
"""
RIGHT = {
    "id": "0", "cpus": "0-3", "memory": "8Gi", "size": "2Mi", "pages": "1", "distances": "[10]", "node": "0",
    "reserved": "[]", "period": "10s", "file": "null", "version": "'1.36'", "name": "pod", "cpu": "1",
}  # fmt: skip
LARGE = ("9" * 5000, "0x" + "f" * 5000, "-0x" + "f" * 5000, "'0-" + "9" * 5000 + "'", f"'{'9' * 5000}'", "1e999999",
    ".inf", "'a\\0b'", '"a\\0b"', '{file: "a\\0b"}', "'" + "x" * 5000 + "'", "2026-99-99", "2026-01-01", "!t x",
    "[[]]", "~", '"\\ud800"',
    "{1: 2}", "{'" + "9" * 5000 + "': 1}")  # fmt: skip


@pytest.mark.parametrize("field", RIGHT)
def test_any_value_in_a_scenario_is_taken_or_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, field: str
) -> None:
    for value in LARGE:
        (tmp_path / "s.yaml").write_text(SCENARIO % {**RIGHT, field: value})
        for words in (("simulate", "s.yaml"), ("simulate", "s.yaml", "-o", "json")):
            _try(capsys, *words)


def test_a_machine_with_strange_numbers_in_json_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = '{"numaNode": 0, "cpus": "0", "sockets": [], "memoryBytes": 1, "hugePages": [], "distances": {"%s": 10}}'
    (tmp_path / "config.yaml").write_text("memoryManagerPolicy: None\n")
    (tmp_path / "pod.yaml").write_text("metadata: {name: a}\nspec: {containers: []}\n")
    for digits in ("9" * 5000, "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT ONE}", "1"):
        (tmp_path / "machine.json").write_text(
            '{"kind": "Topology", "nodes": [%s]}' % (node % digits), encoding="utf-8"
        )
        _try(capsys, "fit", "-f", "pod.yaml", "--node", ".")


# Pipes


@pytest.mark.parametrize(
    "words",
    [
        ("state", "show", "pipe"),
        ("state", "verify", "pipe"),
        ("state", "diff", "pipe"),
        ("report", "--root", "pipe"),
        ("simulate", "pipe"),
        ("config", "show", "--config", "pipe"),
        ("assert", "--junit", "pipe", "--max-spilled", "5Mi", "--", "true"),
    ],
)
def test_a_named_pipe_is_refused_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = subprocess.run(
        [sys.executable, "-c", "from numaudit.cli.main import run; run()", *words],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pipe" in done.stderr


@pytest.mark.parametrize("key", [key for key in KEYS if key.endswith("_file")])
def test_a_file_that_a_setting_names_is_a_regular_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        assert call(["config", "check", "--set", f"{key}={path}"]) == 2
        assert f"{key} {path} is not a regular file" in capsys.readouterr().err
    if key.startswith("kubelet."):
        monkeypatch.setenv(KEYS[key].variable, str(tmp_path / "pipe"))
        assert call(["report"]) == 2
        assert f"{key} {tmp_path / 'pipe'} is not a regular file" in capsys.readouterr().err


# Limits


def _limited(limit: str, words: tuple[str, ...], user: int | None = None) -> subprocess.CompletedProcess[str]:
    program = f"import os, resource, sys\nfrom numaudit.cli import main\n{limit}\nsys.exit(main.call(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE, check=False, env={**os.environ, "TERM": "dumb"}, user=user, group=user,
    )  # fmt: skip


def _no_more(limit: str, most: int) -> str:
    return f"resource.setrlimit(resource.{limit}, ({most}, {most}))"


@pytest.mark.parametrize("verb", VERBS)
def test_a_limit_of_open_files_that_ends_a_verb_is_named_as_the_users(verb: str) -> None:
    words = {"explain": ("explain", "a"), "state": ("state", "show"), "simulate": ("simulate", "/dev/null"),
        "config": ("config", "show"),
        "assert": ("assert", "--max-spilled", "5Mi", "--", "true"), "capture": ("capture", "--duration", "0", "-"),
        "run": ("run", "--memory", "1Mi", "--", "true")}  # fmt: skip
    done = _limited(_no_more("RLIMIT_NOFILE", 3), words.get(verb, (verb,)))
    assert done.returncode == 2, done.stderr
    assert done.stderr == "numaudit: Too many open files; raise the limit (ulimit -n)\n"


def test_a_limit_behind_a_verbs_own_error_is_named_as_the_users(tmp_path: Path) -> None:
    done = _limited(_no_more("RLIMIT_NOFILE", 4), ("capture", "--duration", "0", str(tmp_path / "host.tar.xz")))
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        f"numaudit: cannot write {tmp_path}/host.tar.xz: Too many open files; raise the limit (ulimit -n)\n"
    )


@pytest.mark.parametrize(
    ("words", "failed"),
    [
        (("agent", "--listen", "127.0.0.1:0"), "the agent's service 'probes' does not start: can't start new thread"),
        (("doctor", "--calibrate"), "Resource temporarily unavailable"),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user without other processes")
def test_a_limit_of_processes_that_ends_a_verb_is_named_as_the_users(words: tuple[str, ...], failed: str) -> None:
    done = _limited(_no_more("RLIMIT_NPROC", 0), words, user=65534)
    assert done.returncode == 2, done.stderr
    assert f"{failed}; raise the limit (ulimit -u, or pids.max)" in done.stderr


@pytest.mark.parametrize(
    ("error", "limit", "code", "message"),
    [
        ("MemoryError()", "resource.RLIMIT_AS", 2, "not enough memory; raise the limit (ulimit -v or -d)"),
        ("MemoryError()", None, 3, "not enough memory; give the container, or the host, more"),
        ("OSError(errno.ENFILE, '')", None, 3, "Too many open files in system; raise fs.file-max"),
    ],
)
def test_what_the_host_lacks_is_no_limit_of_the_users(error: str, limit: str | None, code: int, message: str) -> None:
    program = f"import errno\nfrom numaudit.cli import main\ndef fail(**_): raise {error}\nmain.main.main = fail"
    if limit is not None:
        program += f"\nresource.setrlimit({limit}, (1 << 40, 1 << 40))"
    done = _limited(program, ("report",))
    assert (done.returncode, done.stderr) == (code, f"numaudit: {message}\n")
