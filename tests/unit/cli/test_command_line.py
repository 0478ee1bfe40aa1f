"""The command itself: wrong words, closed outputs, interruption, and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

import command_tree
from numaudit import __version__
from numaudit.cli.main import call
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from processes.agent_process import PATIENCE

COMMAND = (sys.executable, "-c", "from numaudit.cli.main import run; run()")
LARGE = ("report", "-o", "json")
SMALL = ("--version",)


@pytest.fixture(autouse=True)
def _without_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMAUDIT_DEBUG", raising=False)


@pytest.fixture
def root(fixtures: Path) -> tuple[str, str]:
    return ("--root", str(fixtures / "systemd-crio"))


def _run(
    arguments: Sequence[str], stdout: int = subprocess.PIPE, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, stdout=stdout, stderr=subprocess.PIPE, env=environment, text=True, timeout=PATIENCE, check=False
    )


# Wrong words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "there is no verb 'nope'; `numaudit --help` lists the verbs"),
        (["hedroom"], "there is no verb 'hedroom'; did you mean headroom?"),
        (["--nope"], "No such option '--nope'"),
        (["report", "--nope"], "No such option '--nope'"),
        (["report", "one", "two"], "unexpected extra argument"),
        (["report", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'json'"),
        (["report", "--fail-below", "nan"], "'nan' is not a share such as 5% or 0.05"),
        (["report", "--fail-below", "1.1"], "'1.1' is not a share such as 5% or 0.05"),
        (["topology", "now"], "unexpected extra argument"),
        (["capture"], "Missing argument 'DIR|FILE.tar.xz|-'"),
        (["report", "--root"], "requires an argument"),
        (["report", "--root", "/nonexistent/tree"], "--root /nonexistent/tree: no such folder or archive"),
        (["capture", ""], "the path is empty"),
        (["config", "show", "--config", ""], "Invalid value for '--config': the path is empty"),
        (
            ["config", "show", "--set", "=5"],
            "--set needs KEY=VALUE, such as log.format=json; the value (hidden) has no key",
        ),
        (["config", "show", "--set", "9" * 5000], "the value (hidden) has no equals sign"),
        (["report", "--duration", "9" * 5000], f"'{'9' * 60}...' is not more than 0 and at most 24 hours"),
        (["report", "--root", ""], "Invalid value for '--root': the path is empty"),
    ],
)
def test_wrong_words_are_refused_with_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert call(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_no_words_at_all_show_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert call([]) == 2
    assert "Verbs:" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["report", "topology", "doctor"])
def test_a_root_that_is_a_file_or_no_tree_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    (tmp_path / "file").write_text("x")
    assert call([verb, "--root", str(tmp_path / "file")]) == 2
    assert "file: is neither a folder nor an archive (.tar, .tar.xz, .tar.gz, " in capsys.readouterr().err
    assert call([verb, "--root", str(tmp_path / ("x" * 300))]) == 2
    assert "File name too long" in capsys.readouterr().err
    assert call([verb, "--root", str(tmp_path)]) == 2
    assert "holds neither proc nor sys" in capsys.readouterr().err


def test_a_root_that_is_a_device_or_an_empty_archive_says_what_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = {}
    for kind in ("", "xz", "gz"):
        empty[kind] = tmp_path / f"empty.tar.{kind}".rstrip(".")
        with tarfile.open(empty[kind], f"w:{kind}"):  # type: ignore[call-overload]
            pass
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        empty["zip"] = tmp_path / "empty.zip"
    (tmp_path / "nothing").mkdir()
    wrong = {
        Path("/dev/null"): "is a device, neither a folder nor an archive",
        Path("/dev/zero"): "is a device, neither a folder nor an archive",
        tmp_path / "nothing": "is empty",
        **dict.fromkeys(empty.values(), "is empty"),
    }
    for path, what in wrong.items():
        assert call(["report", "--root", str(path)]) == 2
        assert capsys.readouterr().err == f"numaudit: --root {path}: {what}; give what `numaudit capture` wrote\n"


def test_a_name_that_matches_nothing_is_refused(capsys: pytest.CaptureFixture[str], root: tuple[str, str]) -> None:
    assert call(["report", "nobody", *root]) == 2
    assert capsys.readouterr().err.startswith("numaudit: no container matches 'nobody'; ")


@pytest.mark.parametrize("name", ["gu-toobig-numanode", "default/gu-toobig-numanode"])
def test_a_pod_that_was_refused_can_be_asked_for(capsys: pytest.CaptureFixture[str], fixtures: Path, name: str) -> None:
    assert call(["report", name, "--root", str(fixtures / "kubernetes-four-nodes")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    refused = [line for line in out.splitlines() if line.startswith("refused: ")]
    assert refused == [
        "refused: default/gu-toobig-numanode: rejected-affinity: Resources cannot be allocated with Topology locality"
    ]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["report", "--help"], ["capture", "-h"]])
def test_help_goes_to_standard_output_and_is_fine(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert call(arguments) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: numaudit")
    assert err == ""


def test_every_verb_and_every_flag_of_it_is_explained_and_no_explanation_is_cut_off() -> None:
    commands = dict(command_tree.commands())
    assert len(commands) > 12
    for path, command in commands.items():
        for one in command.params:
            assert not isinstance(one, click.Option) or one.help, f"{path} {one.name}"
        with command_tree.context_of(path, command) as context:
            text = command.get_help(context)
        assert command.help
        assert "..." not in text.replace("[ARGS]...", ""), path


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == f"numaudit, version {__version__}\n"


# Errors and interruption


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("the scenario is wrong"), 2, "numaudit: the scenario is wrong\n"),
        (Unavailable("no PMU on this host"), 3, "numaudit: no PMU on this host\n"),
        (
            RuntimeError("surprise"),
            4,
            "numaudit: internal error: RuntimeError: surprise; NUMAUDIT_DEBUG=1 shows where\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    root: tuple[str, str],
    error: BaseException,
    code: int,
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Observer, "observe", fail)
    assert call(["report", *root]) == code
    out, err = capsys.readouterr()
    assert (out, err.strip("\n")) == ("", message.strip("\n"))


def test_debugging_shows_where_an_error_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMAUDIT_DEBUG", "1")
    with pytest.raises(InputError):
        call(["report", "--root", "/nonexistent"])


def test_ctrl_c_ends_a_real_process_quietly(root: tuple[str, str]) -> None:
    program = (
        "import os, signal, time\n"
        "from numaudit.engine.observer import Observer\n"
        "from numaudit.cli.main import run\n"
        f"Observer.observe = lambda *_, **__: (os.kill(os.getpid(), {int(signal.SIGINT)}), time.sleep(60))\n"
        "run()"
    )
    done = _run([sys.executable, "-c", program, "report", *root])
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("before", "code"), [("", 130), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0)])
def test_ctrl_c_while_modules_are_imported_is_as_quiet(before: str, code: int) -> None:
    program = (
        "import os, signal, sys\n"
        "from numaudit.cli.start import run\n"
        f"{before}\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "run()"
    )
    done = _run([sys.executable, "-c", program, "--version"])
    assert (done.returncode, done.stderr) == (code, "")
    assert bool(done.stdout) == (code == 0)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_while_the_agent_ends_leaves_its_exit_code(number: signal.Signals, tmp_path: Path) -> None:
    """Python gives up its handlers before it clears modules."""
    program = (
        "import os, sys\n"
        "from numaudit.cli.start import run\n"
        "class Last:\n"
        f"    def __del__(self, kill=os.kill, own=os.getpid()): kill(own, {int(number)})\n"
        "last = Last()\n"
        f"sys.argv = ['numaudit', 'agent', '--config', {str(tmp_path / 'absent')!r}]\n"
        "run()"
    )
    done = _run([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent" in done.stderr


# Outputs that are closed, full or narrow


@pytest.mark.parametrize("arguments", [SMALL, LARGE, ("report", "-o", "wide"), ("topology",), ("--help",)])
def test_a_reader_that_has_gone_is_no_error(root: tuple[str, str], arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        extra = () if arguments[0].startswith("-") else root
        done = _run([*COMMAND, *arguments, *extra], stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("arguments", "wanted"), [(("doctor",), 1), (("doctor", "-o", "json"), 1), (("report", "no-such-container"), 2)]
)
def test_a_reader_that_has_gone_changes_no_exit_code(
    root: tuple[str, str], arguments: tuple[str, ...], wanted: int, stream: str
) -> None:
    """Also where no descriptor is left to open another file with."""
    command = [*COMMAND, *arguments, *root]
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: write_end}
        done = subprocess.run(command, **streams, timeout=PATIENCE, check=False)  # type: ignore[call-overload]
    finally:
        os.close(write_end)
    assert done.returncode == wanted


def test_a_pipe_that_closes_needs_no_further_descriptor() -> None:
    program = (
        "import os, resource\n"
        "from numaudit.cli import main\n"
        "def all_in_use(**_):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "    print('x' * 100_000)\n"
        "    return 1\n"
        "main.main.main = all_in_use\n"
        "main.run()"
    )
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = _run([sys.executable, "-c", program], stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_standard_error_does_not_end_a_verb_that_says_something_first() -> None:
    program = (
        "import click\n"
        "from numaudit.cli import main\n"
        "def talk(**_):\n"
        "    click.echo('a note', err=True)\n"
        "    print('result')\n"
        "    return 5\n"
        "main.main.main = talk\n"
        "main.run()"
    )
    command = ["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-c", program]
    done = _run(command)
    assert (done.returncode, done.stdout) == (5, "result\n")


@pytest.mark.parametrize("arguments", [SMALL, LARGE, ("report",), ("doctor", "-o", "json")])
def test_a_closed_standard_output_is_no_error(root: tuple[str, str], arguments: tuple[str, ...]) -> None:
    extra = () if arguments[0].startswith("-") else root
    done = _run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *arguments, *extra])
    assert (done.returncode, done.stderr) == (arguments[0] == "doctor", "")


needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
buffering = pytest.mark.parametrize("unbuffered", ["", "1"])


def _environment(unbuffered: str) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": unbuffered}


@needs_full_device
@buffering
@pytest.mark.parametrize("arguments", [SMALL, LARGE, ("report",)])
def test_a_full_disk_is_reported(root: tuple[str, str], arguments: tuple[str, ...], unbuffered: str) -> None:
    extra = () if arguments[0].startswith("-") else root
    with Path("/dev/full").open("w") as full:
        done = _run([*COMMAND, *arguments, *extra], full.fileno(), _environment(unbuffered))
    assert done.returncode == 3
    assert done.stderr == "numaudit: cannot write the result: No space left on device\n"


@buffering
def test_a_disk_that_fills_up_within_a_document_is_reported(
    root: tuple[str, str], tmp_path: Path, unbuffered: str
) -> None:
    limited = ["/bin/sh", "-c", 'ulimit -f 2; exec "$@"', "sh"]
    with (tmp_path / "report.json").open("w") as file:
        done = _run([*limited, *COMMAND, *LARGE, *root], file.fileno(), _environment(unbuffered))
    message = "numaudit: cannot write the result: File too large; raise the limit (ulimit -f)\n"
    assert (done.returncode, done.stderr) == (2, message)


@needs_full_device
@buffering
@pytest.mark.parametrize(
    ("arguments", "code"), [(("report", "no-such-container"), 2), (("report", "--nope"), 2), (("report",), 0)]
)
def test_messages_that_cannot_be_written_leave_the_exit_code_as_it_is(
    root: tuple[str, str], arguments: tuple[str, ...], code: int, unbuffered: str
) -> None:
    command = ["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh", *COMMAND, *arguments, *root]
    assert _run(command, environment=_environment(unbuffered)).returncode == code


@needs_full_device
@buffering
def test_a_result_that_cannot_be_written_before_an_error_is_reported(unbuffered: str) -> None:
    program = (
        "from numaudit.cli import main\n"
        "from numaudit.errors import Unavailable\n"
        "def fail(**_):\n"
        "    print('result')\n"
        "    raise Unavailable('nothing')\n"
        "main.main.main = fail\n"
        "main.run()"
    )
    with Path("/dev/full").open("w") as full:
        done = _run([sys.executable, "-c", program], full.fileno(), _environment(unbuffered))
    assert (done.returncode, done.stderr) == (3, "numaudit: cannot write the result: No space left on device\n")


@pytest.mark.parametrize("columns", ["0", "1", "7", "-5", "many"])
@pytest.mark.parametrize("verb", ["report", "topology", "doctor"])
def test_a_terminal_of_no_width_loses_no_figure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fixtures: Path, columns: str, verb: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert call([verb, "--root", str(fixtures / "kubernetes-four-nodes")]) == (verb == "doctor")
    text = capsys.readouterr().out
    assert {"report": "42.7Mi", "topology": "1006Mi", "doctor": "numa_maps"}[verb] in text


def test_an_output_that_cannot_show_a_letter_gets_its_escape(root: tuple[str, str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = _run([*COMMAND, "report", "-o", "wide", *root], environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "/name with spaces \\xe9" in done.stdout


def test_an_option_has_one_kind_of_value_in_all_verbs() -> None:
    kinds: dict[str, dict[str, str]] = {}
    for path, command in command_tree.commands():
        for one in command.params:
            if isinstance(one, click.Option) and not one.is_flag and one.name != "output":
                kind = one.make_metavar(click.Context(command))
                kinds.setdefault(one.opts[-1], {})[" ".join(path)] = kind
    differ = {name for name, found in kinds.items() if len(set(found.values())) > 1}
    assert differ == {"--fail-on"}  # a report's verdicts, and the severities of `setup`


def test_top_counts_what_the_filters_leave(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    asked = ["report", "default/*", "-n", "default", "--verdict", "aligned", "--top", "2", "-o", "json"]
    assert call([*asked, "--root", str(fixtures / "misaligned-node")]) == 0
    rows = json.loads(capsys.readouterr().out)["containers"]
    assert [one["verdict"]["name"] for one in rows] == ["aligned", "aligned"]
