"""What goes wrong when BPF programs are loaded: each time a reason with a hint, never a traceback or a leak."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

import numaudit
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, syscall
from numaudit.kernel.tracing.bpf import ProgramType, address_of
from numaudit.probes import cpu_time, page_alloc
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.loading import loader, loader_child, program_sources
from numaudit.probes.loading.loader import Answer, BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from processes.agent_process import COMPILING, PATIENCE

_PROG_GET_NEXT_ID = 11  # enum bpf_cmd, include/uapi/linux/bpf.h


def program_ids() -> Iterator[int]:
    """Ids of all BPF programs in the kernel, ascending. Needs CAP_SYS_ADMIN; raises OSError."""
    last = 0
    while True:
        attributes = bytearray(struct.pack("=III", last, 0, 0))
        try:
            syscall.call("bpf", _PROG_GET_NEXT_ID, address_of(attributes), len(attributes))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        last = struct.unpack_from("=I", attributes, 4)[0]
        yield last


pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
RunIn = Callable[[Path, Sequence[str]], subprocess.Popen[str]]
Script = Callable[[str], Path]

PACKAGE_PARENT = str(Path(numaudit.__file__).parents[1])
AGENT = """
import json, sys
from numaudit.kernel.host import Host
from numaudit.probes.kinds import KINDS
from numaudit.doctor.checks import probe_checks
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session
session = Session.open(Host(), KINDS, cgroups=100, nodes=4)
for probe in session.probes.values():
    if not isinstance(probe, ProbeRefusal):
        probe.read()
refused = {name: one for name, one in session.probes.items() if isinstance(one, ProbeRefusal)}
print(json.dumps([[name, refused[name].reason if name in refused else None, check.detail, check.hint]
                  for check in probe_checks(session) if (name := check.name.removeprefix("bpf "))]))
"""
"""A small agent: opens the usual probes, reads each that runs, and says how each fared."""

NOBODY = 65534
MOUNT_TRACEFS = "mount -t tracefs tracefs /sys/kernel/tracing"
NO_TRACEFS = "umount -a -t tracefs; umount -l /sys/kernel/debug 2>/dev/null; ! test -d /sys/kernel/tracing/events"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes a shell script that stands in for the loader's Python; `"$@"` are its arguments."""

    def write(text: str) -> Path:
        path = tmp_path / f"python-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def nothing_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the stored bytecode: everything has to be compiled."""
    folder = tmp_path / "bytecode"
    folder.mkdir()
    monkeypatch.setattr(program_sources, "bytecode_folder", lambda: folder)
    return folder


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No test leaves a descriptor open or a child running."""
    before = _descriptors()
    yield
    assert _descriptors() == before
    assert [child for child in psutil.Process().children() if "loader_child" in " ".join(child.cmdline())] == []


def test_the_real_thing_loads_and_closes() -> None:
    outcomes = _load()
    assert all(isinstance(one, LoadedProbe) for one in outcomes.values())


def test_programs_are_gone_when_their_descriptors_are_closed() -> None:
    loaded = loader.load(_requests())
    ids = _program_ids(loaded)
    assert len(ids) == sum(len(one.programs) for one in _requests())
    assert ids <= set(program_ids())
    loader.close(loaded)
    assert _eventually_unloaded(ids)


def test_programs_are_gone_when_the_agent_is_killed() -> None:
    text = AGENT + (
        "from numaudit.kernel.tracing import bpf\n"
        "probes = [session.probes[name] for name in ('page_alloc', 'cpu_time')]\n"
        "fds = [fd for probe in probes for fd in probe._loaded.programs.values()]\n"
        "print(json.dumps([bpf.read_program_info(fd).id for fd in fds]), flush=True)\n"
        "sys.stdin.read()\n"
    )
    agent = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    )
    with agent:
        assert agent.stdout
        _, ids = json.loads(agent.stdout.readline()), set(json.loads(agent.stdout.readline()))
        assert len(ids) == sum(len(one.programs) for one in _requests())
        assert ids <= set(program_ids())
        agent.kill()
    assert _eventually_unloaded(ids)


def test_the_loader_ends_soon_after_an_agent_that_is_killed_while_it_loads() -> None:
    program = COMPILING + AGENT
    agent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, env=_environment())
    with agent:
        child = _wait_for_loader(agent.pid)
        agent.kill()
    psutil.wait_procs([child], timeout=PATIENCE)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_stored_bytecode_needs_no_bcc(script: Script) -> None:
    without = script(f'exec {sys.executable} -S "$@"')
    outcomes = _load(pythons=[without])
    assert _reasons(outcomes) == {"page_alloc": None, "cpu_time": None}
    assert {one.compiled for one in outcomes.values() if isinstance(one, LoadedProbe)} == {None}


def test_stored_bytecode_leaves_bcc_out_of_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bcc.py").write_text("raise SystemExit('bcc is imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert set(_reasons(_load()).values()) == {None}


def test_a_text_that_was_changed_is_compiled_and_says_so(nothing_stored: Path) -> None:
    stored = program_sources.bpf_folder() / "bytecode/cpu_time.json"
    other = json.loads(stored.read_text()) | {"digest": "of another text"}
    (nothing_stored / stored.name).write_text(json.dumps(other))
    outcome = loader.load([cpu_time.request(Host(), 100, 4)])["cpu_time"]
    assert isinstance(outcome, LoadedProbe), outcome
    outcome.close()
    assert outcome.compiled == "cpu_time.json was compiled from another text"


def test_without_bcc_the_want_of_bytecode_is_named_too(script: Script, nothing_stored: Path) -> None:
    outcomes = _load(pythons=[script(f'exec {sys.executable} -S "$@"')])
    assert "there is no bytecode cpu_time.json, and this Python has no module bcc" in str(outcomes["cpu_time"])


def test_what_is_compiled_here_is_what_is_stored(tmp_path: Path) -> None:
    """Byte for byte; another bcc, with another LLVM, may choose other instructions, and stores nothing."""
    command: list[str | Path] = [sys.executable, "-m", "numaudit.probes.loading.compile", tmp_path]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if "run this on Debian bookworm" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    compiled, stored = (
        {path.name: path.read_text() for path in folder.iterdir()}
        for folder in (tmp_path, program_sources.bytecode_folder())
    )
    assert compiled == stored, "a BPF text was changed: make bytecode"


@pytest.mark.parametrize(
    ("module", "words"),
    [("", "this Python has no module bcc"), ("BPF, __version__ = None, '0.31.0'", "run this on Debian bookworm")],
    ids=["without bcc", "another bcc"],
)
def test_nothing_is_stored_by_any_other_compiler(module: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text(module or "raise ModuleNotFoundError(\"No module named 'bcc'\", name='bcc')")
    environment = _environment() | {"PYTHONPATH": f"{tmp_path}:{PACKAGE_PARENT}"}
    command: list[str | Path] = [sys.executable, "-m", "numaudit.probes.loading.compile", tmp_path / "stored"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "stored").exists()


def test_without_bcc_the_next_python_is_tried(script: Script, nothing_stored: Path) -> None:
    without = script(f'exec {sys.executable} -S "$@"')
    assert _reasons(_load(pythons=[without])) == {"page_alloc": Reason.NO_BCC, "cpu_time": Reason.NO_BCC}
    assert _reasons(_load(pythons=[without, sys.executable])) == {"page_alloc": None, "cpu_time": None}


def test_without_any_python_nothing_runs() -> None:
    assert set(_reasons(_load(pythons=[])).values()) == {Reason.NO_BCC}


def test_bcc_without_its_llvm_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_stored: Path) -> None:
    library = next(Path("/usr/lib").rglob("libbcc.so.0"))
    needed = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
    name = next(word for word in needed.split() if word.startswith("libLLVM"))
    (tmp_path / name).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    outcomes = _load()
    assert set(_reasons(outcomes).values()) == {Reason.BCC_BROKEN}
    assert name in str(outcomes["cpu_time"])


def test_a_strangers_module_called_bcc_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_stored: Path
) -> None:
    (tmp_path / "bcc.py").write_text("lattice = 3\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcomes = _load()
    assert set(_reasons(outcomes).values()) == {Reason.NO_BCC}
    assert "another project" in str(outcomes["cpu_time"])


def test_kernel_headers_that_are_none_are_refused_before_bcc_searches_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_stored: Path
) -> None:
    monkeypatch.setenv("BCC_KERNEL_SOURCE", str(tmp_path))
    outcomes = _load()
    assert set(_reasons(outcomes).values()) == {Reason.NO_HEADERS}
    assert str(tmp_path) in str(outcomes["cpu_time"])


def test_without_tracefs_only_the_tracepoint_is_lost() -> None:
    """And without the privilege to mount it; the other probe needs none."""
    fared = _agent(f"{NO_TRACEFS} && exec {_with('bpf,perfmon')}")
    assert fared["page_alloc"][0] == Reason.NO_TRACEFS
    assert "mount -t tracefs" in fared["page_alloc"][1]
    assert fared["cpu_time"][0] is None


def test_without_tracefs_the_loader_mounts_it_for_itself_alone() -> None:
    mounted = _mounted_tracefs()
    fared = _agent(f"{NO_TRACEFS} && exec")
    assert fared["page_alloc"][0] is None
    assert _mounted_tracefs() == mounted


@pytest.mark.parametrize("capabilities", ["", "bpf", "perfmon"])
def test_too_few_capabilities_are_named(capabilities: str) -> None:
    fared = _agent(f"{MOUNT_TRACEFS}; exec {_with(capabilities)}")
    assert {reason for reason, _ in fared.values()} == {Reason.NO_PERMISSION}
    assert all("BPF and PERFMON" in hint and "super-user" not in hint for _, hint in fared.values())


@pytest.mark.parametrize("capabilities", ["bpf,perfmon", "sys_admin"])
def test_enough_capabilities_are_enough(capabilities: str) -> None:
    fared = _agent(f"{MOUNT_TRACEFS}; exec {_with(capabilities)}")
    assert {reason for reason, _ in fared.values()} - {Reason.NO_KPROBES} == {None}


def test_a_tracefs_that_is_closed_to_the_user_is_named_and_only_what_needs_it_is_lost() -> None:
    """As systemd mounts it: for root alone. The programs need only the capabilities."""
    fared = _agent(f"{MOUNT_TRACEFS} -o mode=0700; exec {_as_a_user('bpf,perfmon')}")
    assert fared["page_alloc"][0] is Reason.TRACEFS_CLOSED
    assert "mode=0750" in fared["page_alloc"][1]
    assert fared["cpu_time"][0] is None
    assert {reason for reason, _ in fared.values()} <= {None, Reason.TRACEFS_CLOSED, Reason.NO_KPROBES}


@pytest.mark.parametrize("capabilities", ["", "perfmon"])
def test_a_user_without_the_capabilities_is_told_of_them_and_not_of_tracefs(capabilities: str) -> None:
    fared = _agent(f"{MOUNT_TRACEFS} -o mode=0700; exec {_as_a_user(capabilities)}")
    assert {reason for reason, _ in fared.values()} == {Reason.NO_PERMISSION}


def test_a_user_with_the_capabilities_and_an_open_tracefs_lacks_nothing() -> None:
    fared = _agent(f"{MOUNT_TRACEFS} -o mode=0750,gid={NOBODY}; exec {_as_a_user('bpf,perfmon')}")
    assert {reason for reason, _ in fared.values()} - {Reason.NO_KPROBES} == {None}


def test_a_limit_of_locked_memory_does_not_matter() -> None:
    """Since Linux 5.11 BPF maps are charged to the memory cgroup; 5.14 is the oldest kernel we support."""
    assert {reason for reason, _ in _agent("ulimit -l 0; exec").values()} - {Reason.NO_KPROBES} == {None}


def test_no_place_to_write_is_needed() -> None:
    """As in a container with a read-only root and no /tmp."""
    read_only = "mount --bind -o ro / /mnt && mount --rbind /proc /mnt/proc && mount --rbind /sys /mnt/sys"
    fared = _agent(f"{read_only} && mount --rbind -o ro /dev /mnt/dev && exec chroot /mnt")
    assert {fared["page_alloc"][0], fared["cpu_time"][0]} == {None}


def test_a_host_with_cgroups_of_version_1_only_is_refused_with_that_reason() -> None:
    fared = _agent("umount -a -l -t cgroup2; exec")
    assert {reason for reason, _ in fared.values()} == {Reason.CGROUP_V1}
    assert "unified_cgroup_hierarchy" in fared["cpu_time"][1]


def test_a_captured_tree_has_no_kernel_to_ask(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    with Session.open(Host.under(tmp_path), [CPU_TIME, PAGE_ALLOC], cgroups=1, nodes=1) as session:
        with pytest.raises(ProbeRefusal, match="captured tree"):
            session.read(CPU_TIME)
        with pytest.raises(ProbeRefusal, match="captured tree"):
            session.read(PAGE_ALLOC)


def test_one_text_that_does_not_compile_leaves_the_others_alone(tmp_path: Path) -> None:
    broken = _request(tmp_path, "broken", "int broken_run(void *ctx) { return nonsense; }")
    outcomes = _load([*_requests(), broken])
    assert _reasons(outcomes) == {"page_alloc": None, "cpu_time": None, "broken": Reason.COMPILE_ERROR}
    assert "broken.bpf.c:1:36: error: use of undeclared identifier 'nonsense'" in str(outcomes["broken"])


def test_one_program_that_the_verifier_refuses_leaves_the_others_alone(tmp_path: Path) -> None:
    text = "BPF_HASH(wild_map, u64, u64, 1);\nint wild_run(void *c) { u64 k = 1, *v = wild_map.lookup(&k); return *v; }"
    outcomes = _load([_request(tmp_path, "wild", text), *_requests()])
    assert _reasons(outcomes) == {"wild": Reason.REFUSED_BY_VERIFIER, "page_alloc": None, "cpu_time": None}
    assert "map_value_or_null" in str(outcomes["wild"])


def test_one_map_that_is_too_large_leaves_the_others_alone(tmp_path: Path) -> None:
    text = "BPF_HASH(huge_map, u64, u64, 2000000000);\nint huge_run(void *ctx) { return 0; }"
    outcomes = _load([_request(tmp_path, "huge", text), *_requests()])
    assert _reasons(outcomes) == {"huge": Reason.NO_MEMORY, "page_alloc": None, "cpu_time": None}


def test_two_probes_on_one_tracepoint_both_run(tmp_path: Path) -> None:
    text = "int twin_run(struct tracepoint__kmem__mm_page_alloc *args) { return args->order; }"
    outcomes = _load([_request(tmp_path, "twin", text, "kmem:mm_page_alloc"), *_requests()])
    assert _reasons(outcomes) == {"twin": None, "page_alloc": None, "cpu_time": None}


def test_a_tracepoint_that_the_kernel_lacks_is_named(tmp_path: Path) -> None:
    request = _request(tmp_path, "lost", "int lost_run(void *ctx) { return 0; }", "sched:nothing_of_the_kind")
    outcomes = _load([request, *_requests()])
    assert _reasons(outcomes) == {"lost": Reason.NO_TRACEPOINT, "page_alloc": None, "cpu_time": None}
    assert "sched:nothing_of_the_kind" in str(outcomes["lost"])


def test_a_loader_that_is_killed_is_reported_with_the_signal(nothing_stored: Path) -> None:
    result: dict[str, Answer] = {}
    thread = threading.Thread(target=lambda: result.update(_load()))
    thread.start()
    _wait_for_loader(os.getpid()).kill()
    thread.join(PATIENCE)
    assert set(_reasons(result).values()) == {Reason.LOADER_DIED}
    assert "SIGKILL" in str(result["cpu_time"])


def test_a_loader_that_fails_is_reported_with_its_last_words(script: Script) -> None:
    outcomes = _load(pythons=[script("echo out of cheese >&2; exit 7")])
    assert set(_reasons(outcomes).values()) == {Reason.LOADER_FAILED}
    assert "exit code 7" in str(outcomes["cpu_time"])
    assert "out of cheese" in str(outcomes["cpu_time"])


def test_a_python_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    outcomes = _load(pythons=[tmp_path / "no-such-python"])
    assert set(_reasons(outcomes).values()) == {Reason.LOADER_DIED}
    assert "no-such-python" in str(outcomes["cpu_time"])


def test_a_process_that_may_open_no_more_files_says_so() -> None:
    requests = _requests()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        outcomes = loader.load(requests)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {one.reason for one in outcomes.values() if isinstance(one, ProbeRefusal)} == {Reason.TOO_MANY_FILES}
    assert len(outcomes) == len(requests)
    assert Reason.TOO_MANY_FILES.may_pass


def test_a_loader_that_hangs_is_killed_at_the_deadline_with_all_it_started(script: Script, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    for deadline in (0.5, 5, 60):  # a busy machine may kill it before it has started anything
        hangs = script(f"sleep 100000 & echo $! >{mark}.new; mv {mark}.new {mark}; wait")
        outcomes = _load(deadline=deadline, pythons=[hangs])
        assert set(_reasons(outcomes).values()) == {Reason.LOADER_TIMEOUT}
        if mark.exists():
            break
    grandchild = int(mark.read_text())
    end = time.monotonic() + PATIENCE  # a killed process takes a moment to be gone
    while psutil.pid_exists(grandchild) and psutil.Process(grandchild).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_answers_that_came_before_the_loader_hangs_are_kept(script: Script) -> None:
    """The second probe's answer never comes: a program of an unknown type makes this stand-in stop."""
    stand_in = f"""exec {sys.executable} -c '
import json, os, socket, sys, time
channel = socket.socket(fileno=int(sys.argv[3]))
first = json.loads(channel.recv(1 << 20))[0]["name"]
channel.send(json.dumps({{"name": first, "reason": "no-event", "text": "as arranged"}}).encode())
time.sleep(100000)' "$@" """
    for deadline in (2, 10, 60):  # a busy machine takes some seconds to start a Python
        outcomes = _load(deadline=deadline, pythons=[script(stand_in)])
        if _reasons(outcomes)["page_alloc"] is not Reason.LOADER_TIMEOUT:
            break
    assert _reasons(outcomes) == {"page_alloc": Reason.NO_EVENT, "cpu_time": Reason.LOADER_TIMEOUT}


def test_a_full_map_is_counted_and_what_is_in_it_stays_right(new_group: NewGroup, run_in: RunIn) -> None:
    with Session.open(Host(), [PAGE_ALLOC, CPU_TIME], cgroups=1, nodes=1) as session:
        _skip_if_refused(session)
        groups = [new_group(name) for name in ("one", "two", "three", "four", "five", "six")]
        for group in groups:
            run_in(group, [sys.executable, "-I", "-S", "-c", "bytearray(1 << 20)"]).communicate()
        assert session.read(PAGE_ALLOC).lost["map-full"] > 0
        assert session.read(CPU_TIME).lost["map-full"] > 0
        assert len(session.read(CPU_TIME).by_node) == 1
        assert sum(len(orders) for orders in session.read(PAGE_ALLOC).by_order.values()) <= 4
        first = groups[0].stat().st_ino
        counted = session.read(CPU_TIME).by_node.get(first)
        if counted:
            assert sum(counted.values()) < 2e9
        for probe in session.running().values():
            probe.forget(probe.cgroups())
        run_in(groups[5], [sys.executable, "-I", "-S", "-c", "bytearray(1 << 20)"]).communicate()
        assert groups[5].stat().st_ino in session.read(CPU_TIME).by_node


def _load(
    requests: Sequence[ProbeRequest] | None = None,
    deadline: float = loader.DEADLINE,
    pythons: Sequence[str | Path] | None = None,
) -> Mapping[str, Answer]:
    """Outcome of each probe; loaded probes are closed again."""
    loaded = loader.load(_requests() if requests is None else requests, deadline=deadline, pythons=pythons)
    loader.close(loaded)
    return loaded


def _requests() -> list[ProbeRequest]:
    return [page_alloc.request(Host(), 100, 4), cpu_time.request(Host(), 100, 4)]


def test_a_user_who_may_not_mount_tracefs_should_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_child, "TRACEFS", ("/there/is/none",))
    child = os.fork()
    if not child:
        os.setuid(65534)
        try:
            loader_child._find_tracefs()
        except ProbeRefusal as refusal:
            os._exit(42 if refusal.reason is Reason.NO_PERMISSION else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def _request(folder: Path, name: str, text: str, tracepoint: str | None = None) -> ProbeRequest:
    source = folder / f"{name}.bpf.c"
    source.write_text(text)
    kind = ProgramType.TRACEPOINT if tracepoint else ProgramType.RAW_TRACEPOINT
    return ProbeRequest(name, (BpfProgram(f"{name}_run", kind, tracepoint),), (), source=source)


def _reasons(outcomes: Mapping[str, Answer]) -> dict[str, Reason | None]:
    return {name: one.reason if isinstance(one, ProbeRefusal) else None for name, one in outcomes.items()}


def _agent(prefix: str) -> dict[str, tuple[Reason | None, str]]:
    """Run the small agent behind a shell prefix in a mount namespace of its own: probe -> reason and hint.

    Probes that are off unless somebody asks for them are left out.
    """
    command = f'{prefix} "$0" "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-c", command, sys.executable, "-c", AGENT],
        capture_output=True,
        text=True,
        env=_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    fared = [(probe, reason, hint) for probe, reason, _, hint in json.loads(done.stdout) if reason != "switched-off"]
    return {probe: (None if reason is None else Reason(reason), hint or "") for probe, reason, hint in fared}


def _mounted_tracefs() -> list[str]:
    """Other mounts are other people's, and come and go."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if " tracefs " in line]


def _with(capabilities: str) -> str:
    """A shell prefix that leaves a root process nothing but these capabilities."""
    kept = "".join(f",+{name}" for name in capabilities.split(",") if name)
    setpriv = shutil.which("setpriv")
    assert setpriv
    return f"{setpriv} --bounding-set=-all{kept} --inh-caps=-all{kept}"


def _as_a_user(capabilities: str) -> str:
    """The same for a process that is not root's."""
    kept = "".join(f",+{name}" for name in capabilities.split(",") if name)
    return f"{_with(capabilities)} --ambient-caps=-all{kept} --reuid={NOBODY} --regid={NOBODY} --clear-groups"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PACKAGE_PARENT}


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 (the order of a set of names is no matter)


def _program_ids(outcomes: Mapping[str, Answer]) -> set[int]:
    probes = [one for one in outcomes.values() if isinstance(one, LoadedProbe)]
    return {bpf.read_program_info(fd).id for probe in probes for fd in probe.programs.values()}


def _eventually_unloaded(ids: set[int]) -> bool:
    """The kernel frees programs a moment after their last descriptor."""
    deadline = time.monotonic() + PATIENCE
    while ids & set(program_ids()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not ids & set(program_ids())


def _wait_for_loader(parent: int) -> psutil.Process:
    """The loader process of a parent, once it has begun to load bcc."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for child in psutil.Process(parent).children():
            try:
                if "libbcc" in Path(f"/proc/{child.pid}/maps").read_text():
                    return child
            except OSError:
                continue
        time.sleep(0.001)
    raise AssertionError("no loader process was seen")


def _skip_if_refused(session: Session) -> None:
    for refused in (
        one for one in (session.probe(PAGE_ALLOC), session.probe(CPU_TIME)) if isinstance(one, ProbeRefusal)
    ):
        pytest.skip(str(refused))
