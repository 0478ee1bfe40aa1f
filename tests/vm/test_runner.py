"""The runner itself: what it asks of QEMU, what it makes of results, and how it reports a dead guest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import debian
import kernels
import results
import userland
from architectures import AARCH64
from conftest import FindKernel
from debian import tool
from guest import Completed, Guest, GuestDied, Job, qemu_command, run
from numaudit.errors import InputError, ParseError, Unavailable
from userland import Userland


@pytest.fixture
def kernel(tmp_path: Path) -> kernels.Kernel:
    """A kernel folder whose module lists alone matter."""
    modules = tmp_path / "lib/modules/6.1.0-1-cloud"
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text(
        "kernel/fs/fuse/fuse.ko.xz:\n"
        "kernel/fs/fuse/virtiofs.ko.xz: kernel/fs/fuse/fuse.ko.xz kernel/virtio/virtio.ko.xz\n"
        "kernel/virtio/virtio.ko.xz: kernel/virtio/virtio-ring.ko.xz\n"
        "kernel/virtio/virtio-ring.ko.xz:\n"
    )
    (modules / "modules.builtin").write_text("kernel/fs/overlayfs/overlay.ko\n")
    return kernels.Kernel("6.1", tmp_path)


def test_a_module_is_loaded_after_what_it_needs(kernel: kernels.Kernel) -> None:
    files = kernels.module_files(kernel, ["virtiofs", "virtio_ring"])
    assert [file.name for file in files] == ["fuse.ko.xz", "virtio-ring.ko.xz", "virtio.ko.xz", "virtiofs.ko.xz"]


def test_a_built_in_module_needs_no_file(kernel: kernels.Kernel) -> None:
    assert kernels.module_files(kernel, ["overlay"]) == []


def test_a_module_the_kernel_lacks_is_named(kernel: kernels.Kernel) -> None:
    with pytest.raises(Unavailable, match="no module 9p"):
        kernels.module_files(kernel, ["9p"])


def test_a_module_list_in_another_form_is_refused() -> None:
    with pytest.raises(ParseError, match="no colon"):
        kernels.parse_modules_dep("kernel/fs/fuse/fuse.ko.xz")


def test_an_unknown_series_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"6\.1, 6\.12"):
        kernels.fetch("2.6")


def test_a_kernel_that_is_not_of_the_series_asked_for_is_refused(
    kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CACHE", tmp_path / "cache")
    (tmp_path / "cache/kernels").mkdir(parents=True)
    (tmp_path / "cache/kernels/6.12").symlink_to(kernel.root)
    with pytest.raises(Unavailable, match=r"6\.1\.0-1-cloud, not 6\.12"):
        kernels.find("6.12")


def test_a_missing_kernel_skips_a_test_and_says_how_to_get_it(
    guest_kernel: FindKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    monkeypatch.setattr("guest.require_tools", lambda kernel: None)
    for name in ("CI", "NUMAUDIT_REQUIRE_GUEST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"fetch it with: .*kernels\.py"):
        guest_kernel("6.1")


@pytest.mark.parametrize("name", ["CI", "NUMAUDIT_REQUIRE_GUEST"])
def test_a_missing_kernel_is_a_failure_where_a_guest_is_required(
    name: str, guest_kernel: FindKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    monkeypatch.setattr("guest.require_tools", lambda kernel: None)
    monkeypatch.setenv(name, "1")
    with pytest.raises(pytest.fail.Exception, match=r"no 6\.1 kernel"):
        guest_kernel("6.1")


def test_distances_are_symmetric_and_10_is_local(kernel: kernels.Kernel) -> None:
    guest = Guest(kernel, nodes=8, cpus=8)
    for one in range(8):
        assert guest.distance(one, one) == 10
        for other in range(8):
            assert guest.distance(one, other) == guest.distance(other, one)
    assert [guest.distance(2, node) for node in range(4)] == [20, 32, 10, 12]


@pytest.mark.parametrize(("nodes", "cpus"), [(0, 1), (9, 9), (4, 6), (4, 2)])
def test_a_machine_that_cannot_be_dealt_out_is_refused(kernel: kernels.Kernel, nodes: int, cpus: int) -> None:
    with pytest.raises(ValueError, match="node"):
        Guest(kernel, nodes=nodes, cpus=cpus)


def test_cpus_and_memory_are_dealt_to_the_nodes_in_order(
    kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = Guest(kernel, nodes=2, cpus=6, node_memory=256 << 20, command_line="numa_balancing=disable")
    line = " ".join(qemu_command(guest, "qemu", tmp_path / "socket", tmp_path / "initramfs", "null"))
    assert "-smp 6 -m 512M" in line
    assert "id=m1,size=256M,share=on -numa node,nodeid=1,cpus=3-5,memdev=m1" in line
    assert "dist,src=0,dst=1,val=12" in line
    assert "rdinit=/init numa_balancing=disable" in line
    assert "thread=single" in line


def test_slow_nodes_come_last_and_the_firmware_has_figures_for_all_memory(
    kernel: kernels.Kernel, tmp_path: Path
) -> None:
    guest = Guest(kernel, nodes=2, cpus=2, node_memory=256 << 20, slow_nodes=2)
    line = " ".join(qemu_command(guest, "qemu", tmp_path / "socket", tmp_path / "initramfs", "null"))
    assert "-smp 2 -m 1024M" in line
    assert "node,nodeid=1,cpus=1-1,memdev=m1,initiator=1" in line
    assert "node,nodeid=3,memdev=m3,initiator=1" in line
    assert "-machine hmat=on" in line
    assert line.count("data-type=access-latency") == line.count("data-type=access-bandwidth") == 2 * 4
    assert "initiator=1,target=2,hierarchy=memory,data-type=access-latency,latency=600" in line


def test_a_bare_node_has_a_cpu_and_no_memory(kernel: kernels.Kernel, tmp_path: Path) -> None:
    guest = Guest(kernel, nodes=2, cpus=2, node_memory=256 << 20, bare_nodes=1)
    line = " ".join(qemu_command(guest, "qemu", tmp_path / "socket", tmp_path / "initramfs", "null"))
    assert "-smp 3 -m 512M" in line
    assert "-numa node,nodeid=2,cpus=2 " in line
    assert "hmat" not in line
    with pytest.raises(ValueError, match="bare"):
        Guest(kernel, slow_nodes=1, bare_nodes=1)


def test_the_guests_kernel_does_not_check_its_timer(
    kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulated timer of a busy host comes late, and the check would end in a panic."""
    line = " ".join(qemu_command(Guest(kernel), "qemu", tmp_path / "socket", tmp_path / "initramfs", "null"))
    assert " no_timer_check " in line


def test_a_guest_of_another_architecture_has_another_board(tmp_path: Path) -> None:
    guest = Guest(kernels.Kernel("arm64-6.12", tmp_path / "lib"))
    (tmp_path / "lib/lib/modules/6.12.0-1-cloud").mkdir(parents=True)
    line = " ".join(qemu_command(guest, "qemu", tmp_path / "socket", tmp_path / "initramfs", "null"))
    assert "-M virt" in line
    assert "-icount shift=1" in line
    assert "console=ttyAMA0" in line


def test_a_foreign_guest_whose_programs_are_missing_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(userland, "CACHE", tmp_path)
    with pytest.raises(Unavailable, match=r"arm64/qemu is missing; fetch it with: .*kernels\.py"):
        userland.find(AARCH64)


def test_a_foreign_guest_runs_the_same_versions_as_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userland, "CACHE", tmp_path)
    for name in ("qemu", "root", "site-packages"):
        (tmp_path / "arm64" / name).mkdir(parents=True)
    requirements = tmp_path / "arm64/site-packages/requirements.txt"
    wanted = userland.requirements()
    assert f"pytest=={pytest.__version__}\n" in wanted
    requirements.write_text(wanted)
    assert userland.find(AARCH64).folders["/"] == str(tmp_path / "arm64/root")
    requirements.write_text(wanted.replace(pytest.__version__, "1.0"))
    with pytest.raises(Unavailable, match=r"holds other packages than .*; fetch it with: .*kernels\.py"):
        userland.find(AARCH64)


Archive = Callable[[str], None]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Puts a shell script in the place of apt-get; it counts its calls in the file `calls`."""
    monkeypatch.setattr(debian, "CACHE", tmp_path)
    monkeypatch.setattr(debian, "RETRY_AFTER", (0, 0))
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text(
        "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: M <m@example.org>\nDescription: d\n"
    )
    (package / "file").write_text("content")
    subprocess.run(["dpkg-deb", "--build", package, tmp_path / "p.deb"], check=True, capture_output=True)

    def answer(download: str) -> None:
        script = tmp_path / "apt-get"
        script.write_text(
            f"#!/bin/sh\ncase $* in *update) exit;; esac\necho >>{tmp_path}/calls\ncall=$(wc -l <{tmp_path}/calls)\n"
            f"works() {{ cp {tmp_path}/p.deb .; }}\nfails() {{ echo $1 >&2; exit 100; }}\n{download}\n"
        )
        script.chmod(0o755)
        cache = tmp_path / "apt-cache"
        cache.write_text("#!/bin/sh\n")
        cache.chmod(0o755)
        fakes = {one.name: str(one) for one in (script, cache)}
        monkeypatch.setattr(debian, "tool", lambda name: fakes.get(name) or tool(name))

    return answer


def test_a_package_that_cannot_be_had_at_once_is_asked_for_again(archive: Archive, tmp_path: Path) -> None:
    archive("[ $call -lt 3 ] && fails 'Hash Sum mismatch'; works")
    debian.fetch("arm64", ["p"], tmp_path / "root")
    assert (tmp_path / "root/file").read_text() == "content"


def test_a_package_that_cannot_be_had_is_given_up_with_apts_own_words(archive: Archive, tmp_path: Path) -> None:
    archive("fails 'Unable to locate package p'")
    with pytest.raises(Unavailable, match=r"cannot get p for arm64; .*Unable to locate package p"):
        debian.fetch("arm64", ["p"], tmp_path / "root")
    assert (tmp_path / "calls").read_text() == "\n" * 3


RunWith = Callable[[str], Completed]


@pytest.fixture
def run_with(kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWith:
    """Runs a job on a machine whose QEMU is a shell script; it counts its boots in the file `boots`."""
    monkeypatch.setattr("initramfs.MODULES", ("overlay",))
    folder = tmp_path / "job"
    folder.mkdir()

    def script(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncd {folder}\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def with_qemu(text: str) -> Completed:
        programs = Userland(
            script("qemu", f"echo >>boots\nboot=$(wc -l <boots)\n{text}"),
            script("busybox", ""),
        )
        fakes = {"cpio": script("cpio", "cat >/dev/null")}
        monkeypatch.setattr("guest.require_tools", lambda kernel: programs)
        monkeypatch.setattr("initramfs.tool", lambda name: fakes.get(name) or tool(name))
        monkeypatch.setattr("guest.VIRTIOFSD", script("virtiofsd", "touch virtiofs.sock; exec sleep 1000"))
        return run(Guest(kernel), Job(["true"], folder))

    return with_qemu


PANIC = "echo 'Kernel panic - not syncing: IO-APIC + timer does not work' >console.log; exit 0"
WORKS = "touch began; echo 7 >rc"


def test_a_guest_that_dies_before_its_command_begins_is_booted_again(run_with: RunWith) -> None:
    done = run_with(f"if [ $boot -lt 3 ]; then {PANIC}; fi; {WORKS}")
    assert done.exit_code == 7
    assert len(done.failed_boots) == 2
    for death in done.failed_boots:
        assert death.startswith("the guest died before the command began")
        assert "Kernel panic" in death


def test_a_guest_that_never_boots_is_given_up_after_three_boots(run_with: RunWith, tmp_path: Path) -> None:
    with pytest.raises(GuestDied, match=r"(?s)3 boots failed; the last: .*Kernel panic"):
        run_with(PANIC)
    assert (tmp_path / "job/boots").read_text() == "\n" * 3


def test_a_guest_that_dies_during_its_command_is_not_booted_again(run_with: RunWith, tmp_path: Path) -> None:
    with pytest.raises(GuestDied, match=r"(?s)died during the command.*Kernel panic"):
        run_with(f"touch began; {PANIC}")
    assert (tmp_path / "job/boots").read_text() == "\n"


def test_a_guest_that_hangs_on_its_way_up_is_booted_again(run_with: RunWith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guest.BOOT_TIMEOUT", 3)
    done = run_with(f"if [ $boot -lt 2 ]; then exec sleep 1000; fi; {WORKS}")
    assert done.exit_code == 7
    assert done.failed_boots[0].startswith("the command did not begin in 3 s")


def _lines(*steps: tuple[str, str, str]) -> list[str]:
    return [
        json.dumps({"id": test, "when": when, "outcome": outcome, "seconds": 0.5, "text": f"{when} {outcome}"})
        for test, when, outcome in steps
    ]


def test_a_test_passes_when_each_of_its_steps_did() -> None:
    lines = _lines(("a", "start", ""), ("a", "setup", "passed"), ("a", "call", "passed"), ("a", "teardown", "passed"))
    assert results.parse(lines)["a"].outcome == "passed"
    assert results.parse(lines)["a"].seconds == 2.0


@pytest.mark.parametrize("step", ["setup", "call", "teardown"])
def test_a_test_fails_when_any_of_its_steps_did(step: str) -> None:
    lines = _lines(*(("a", when, "failed" if when == step else "passed") for when in ("setup", "call", "teardown")))
    assert results.parse(lines)["a"].outcome == "failed"
    assert f"{step} failed" in results.parse(lines)["a"].text


def test_a_skip_keeps_its_reason() -> None:
    skipped = results.parse(_lines(("a", "setup", "skipped"), ("a", "teardown", "passed")))["a"]
    assert skipped.outcome == "skipped"
    assert "setup skipped" in skipped.text


def test_a_test_the_guest_did_not_survive_is_unfinished() -> None:
    ends = results.parse(_lines(("a", "teardown", "passed"), ("b", "start", ""), ("b", "setup", "passed")))
    assert {test: result.outcome for test, result in ends.items()} == {"a": "passed", "b": "unfinished"}


@pytest.mark.vm
def test_a_panic_is_reported_with_the_end_of_the_console(guest_kernel: FindKernel, tmp_path: Path) -> None:
    guest = Guest(guest_kernel("6.12"))
    with pytest.raises(GuestDied, match="sysrq triggered crash"):
        run(guest, Job(["/bin/sh", "-c", "echo before; echo c >/proc/sysrq-trigger"], tmp_path))
    assert (tmp_path / "stdout").read_text() == "before\n"


@pytest.mark.vm
def test_a_guest_that_does_not_end_is_killed(guest_kernel: FindKernel, tmp_path: Path) -> None:
    guest = Guest(guest_kernel("6.12"))
    with pytest.raises(GuestDied, match="did not end in 1 s"):
        run(guest, Job(["sleep", "1000"], tmp_path, timeout=1))


@pytest.mark.vm
def test_a_command_has_its_own_machine_environment_and_exit_status(guest_kernel: FindKernel, tmp_path: Path) -> None:
    script = 'nproc; ls -d /sys/devices/system/node/node*; cat /proc/cmdline; echo "$WHO" >&2; echo x >shared; exit 7'
    guest = Guest(guest_kernel("6.1"), nodes=2, cpus=2, node_memory=256 << 20, command_line="numa_balancing=disable")
    job = Job(["/bin/sh", "-c", script.replace(">shared", f">{tmp_path}/shared")], tmp_path, {"WHO": "it's me"})
    done = run(guest, job)
    assert done.exit_code == 7
    assert done.stderr == "it's me\n"
    lines = done.stdout.splitlines()
    assert lines[:3] == ["2", "/sys/devices/system/node/node0", "/sys/devices/system/node/node1"]
    assert lines[3].endswith("numa_balancing=disable")
    assert (tmp_path / "shared").read_text() == "x\n"
