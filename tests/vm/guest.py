"""A four-node machine to test on: QEMU without hardware help (TCG), another kernel, this host's files.

The guest's root is the host's `/` through virtiofs with a tmpfs overlay on top: it sees this checkout and
everything installed here, and whatever it writes is gone at power-off, except in one shared folder. A guest of another
architecture has Debian's programs for it as its root, and the checkout at the same place.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, NamedTuple

import initramfs
import userland
from debian import CHECKOUT, tool
from initramfs import BEGAN, COMMAND
from kernels import Kernel
from numaudit.errors import NumauditError, Unavailable
from userland import Userland

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
"""The C virtiofsd of QEMU 7.2 (qemu-system-common in Debian 12). QEMU 8 and later no longer bring it."""

DISTANCES = (10, 12, 20, 32, 40, 44, 48, 52)
"""From node i to node j by i XOR j: pairs of near nodes, and pairs of pairs, as on a two-socket machine."""


class Speed(NamedTuple):
    """Of one node's memory for another node's CPUs, as the firmware has it."""

    nanoseconds: int
    mebibytes_per_second: int


FIRST_BUS, BUSES = 32, 16
"""Number of the first node's PCI bus, and numbers that each takes with those behind it."""

OWN, OTHERS, SLOW = Speed(100, 20480), Speed(200, 20480), Speed(600, 4096)

BOOTS = 3
"""How often a guest is booted at most: on a busy host an emulated kernel may panic on its way up."""

BOOT_TIMEOUT = 300.0
"""Seconds from starting QEMU to the beginning of the command: an idle host needs 3, a crowded one some 30."""


class GuestDied(NumauditError):
    """The guest ended without the command's exit status, or did not end in time."""


class GuestDidNotBoot(GuestDied):
    """It died, or hung, before the command began: nothing has happened yet, so it may be booted again."""


@dataclass(frozen=True, slots=True)
class Guest:
    """The machine to boot. CPUs are dealt to the nodes evenly and in order."""

    kernel: Kernel
    nodes: int = 4
    cpus: int = 4
    node_memory: int = 512 << 20
    """Bytes of RAM on each node; the kernel keeps 10-50 MB of it."""
    unequal: Sequence[int] = ()
    """Bytes of RAM by node, where they are not alike."""
    back: int = 0
    """How much further a node is from one of a higher number than that one is from it."""
    command_line: str = ""
    """Added to the kernel's command line."""
    slow_nodes: int = 0
    """Nodes without CPUs after the others, with memory that the firmware (HMAT) calls slow."""
    bare_nodes: int = 0
    """The last nodes: with a CPU each, and without memory."""
    nodes_with_devices: Sequence[int] = ()
    """Each has a PCI bus of its own (pxb-pcie) with a network adapter of virtio and an NVMe controller behind it."""

    def __post_init__(self) -> None:
        every = self.nodes + self.slow_nodes + self.bare_nodes
        if not 1 <= self.nodes <= every <= len(DISTANCES):
            raise ValueError(f"a guest has 1 to {len(DISTANCES)} nodes, not {self.nodes} of {every}")
        if self.slow_nodes and self.bare_nodes:
            raise ValueError("Linux ignores the HMAT that QEMU writes for bare nodes, so there are no slow ones then")
        if self.cpus < self.nodes or self.cpus % self.nodes:
            raise ValueError(f"{self.cpus} CPUs cannot be dealt evenly to {self.nodes} nodes")

    def distance(self, from_node: int, to_node: int) -> int:
        return DISTANCES[from_node ^ to_node] + (self.back if from_node > to_node else 0)

    @property
    def memory(self) -> Sequence[int]:
        """Bytes of RAM by node, of those that have any."""
        return self.unequal or [self.node_memory] * (self.nodes + self.slow_nodes)


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended in the guest."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    """From starting QEMU to its end."""
    failed_boots: tuple[str, ...] = ()
    """Why the guest had to be booted again, for each time, with the end of its console."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command for the guest. It starts in the checkout."""

    command: Sequence[str]
    folder: Path
    """Shared with the host at the same path; must exist. Also gets `began`, `stdout`, `stderr`, `rc`, `console.log`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 300
    """Seconds from the beginning of the command to the end of QEMU."""
    shared: Path | None = None
    """A folder around `folder` to share with the host instead, with what other guests have in it."""
    on_terminal: bool = False
    """Join the command to this process's terminal; stdout and stderr are then not kept."""


def run(guest: Guest, job: Job, show: IO[str] | None = None) -> Completed:
    """Boot, run one command, power off; `show` gets the command's stdout as it comes.

    A guest that dies before the command begins is booted again, at most twice; one that dies later is not.
    Raises Unavailable when this host cannot run a guest, GuestDied with the end of the guest's console.
    """
    programs = require_tools(guest.kernel)
    userland.compile_checkout()
    (job.folder / COMMAND).write_text(_command_script(guest, job))
    archive = initramfs.build(
        guest.kernel, programs, job.folder, shared=job.shared or job.folder, on_terminal=job.on_terminal
    )
    failed: list[str] = []
    while True:
        try:
            return replace(_boot(guest, job, programs.qemu, archive, show), failed_boots=tuple(failed))
        except GuestDidNotBoot as death:
            failed.append(str(death))
            if len(failed) == BOOTS:
                raise GuestDidNotBoot(f"{BOOTS} boots failed; the last: {death}") from death


def _boot(guest: Guest, job: Job, qemu: str, archive: Path, show: IO[str] | None) -> Completed:
    socket = job.folder / "virtiofs.sock"
    for left in (socket, job.folder / "console.log"):
        left.unlink(missing_ok=True)
    started = time.monotonic()
    serial = "mon:stdio" if job.on_terminal else f"file:{job.folder / 'console.log'}"
    command = qemu_command(guest, qemu, socket, archive, serial)
    log = None if job.on_terminal else job.folder / "qemu.log"
    with _virtiofsd(socket, job.folder), _ending_with_us(command, log) as machine:
        _wait(machine, job, show)
    seconds = time.monotonic() - started
    if not (job.folder / BEGAN).exists():
        raise GuestDidNotBoot(_obituary("the guest died before the command began", job))
    if not (job.folder / "rc").exists():
        raise GuestDied(_obituary("the guest died during the command", job))
    return Completed(int(_text(job, "rc")), _text(job, "stdout"), _text(job, "stderr"), seconds)


def require_tools(kernel: Kernel) -> Userland:
    """What the guest runs. Raises Unavailable with what is missing for running it."""
    for name in ("cpio", "setpriv"):
        tool(name)
    if not VIRTIOFSD.exists():
        raise Unavailable(f"the guest needs {VIRTIOFSD}, which comes with Debian 12's qemu-system-x86 (QEMU 7.2)")
    if os.geteuid():
        raise Unavailable("the guest needs root: virtiofsd shares this host's / with it")
    return userland.find(kernel.architecture)


def qemu_command(guest: Guest, qemu: str, socket: Path, archive: Path, serial: str) -> list[str]:
    """The command line of the machine."""
    architecture = guest.kernel.architecture
    command = [qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-serial", serial, *architecture.machine]
    memory_nodes = guest.nodes + guest.slow_nodes
    cpus = guest.cpus + guest.bare_nodes
    command += ["-smp", str(cpus), "-m", f"{sum(guest.memory) >> 20}M"]
    command += ["-kernel", str(guest.kernel.image), "-initrd", str(archive)]
    command_line = f"{architecture.command_line} panic=-1 quiet rdinit=/init {guest.command_line}".rstrip()
    command += ["-append", command_line]
    command += ["-chardev", f"socket,id=files,path={socket}"]
    command += ["-device", "vhost-user-fs-pci,chardev=files,tag=root"]
    per_node = guest.cpus // guest.nodes
    for node in range(memory_nodes):
        # virtiofsd reads and writes guest memory, so every node's has to be shared
        memory = f"memory-backend-memfd,id=m{node},size={guest.memory[node] >> 20}M,share=on"
        has_cpus = node < guest.nodes
        place = f",cpus={node * per_node}-{node * per_node + per_node - 1}" if has_cpus else ""
        near = f",initiator={node % guest.nodes}" if guest.slow_nodes else ""
        command += ["-object", memory, "-numa", f"node,nodeid={node}{place},memdev=m{node}{near}"]
    for bare in range(guest.bare_nodes):
        command += ["-numa", f"node,nodeid={memory_nodes + bare},cpus={guest.cpus + bare}"]
    every = range(memory_nodes + guest.bare_nodes)
    for source in every:
        for target in every:
            if source == target:
                continue
            command += ["-numa", f"dist,src={source},dst={target},val={guest.distance(source, target)}"]
    for number, node in enumerate(guest.nodes_with_devices):
        command += _devices(number, node)
    return command + (_heterogeneous(guest) if guest.slow_nodes else [])


def _devices(number: int, node: int) -> list[str]:
    """A PCI bus that the firmware says is on the node, and what is plugged in there."""
    bus, ports = f"bus{number}", [f"port{number}{slot}" for slot in "ab"]
    options = ["-device", f"pxb-pcie,id={bus},bus=pcie.0,bus_nr={FIRST_BUS + BUSES * number},numa_node={node}"]
    for slot, port in enumerate(ports):
        options += ["-device", f"pcie-root-port,id={port},bus={bus},chassis={2 * number + slot + 1},addr={slot:x}"]
    options += ["-netdev", f"hubport,hubid=0,id=net{number}"]
    options += ["-device", f"virtio-net-pci,netdev=net{number},bus={ports[0]},mac={adapter_address(node)}"]
    options += ["-blockdev", f"null-co,node-name=disk{number},size=1048576,read-zeroes=on"]
    return [*options, "-device", f"nvme,drive=disk{number},serial=node{node},bus={ports[1]}"]


def adapter_address(node: int) -> str:
    """The hardware address of a node's network adapter, by which a test recognizes it."""
    return f"52:54:00:00:00:{node:02x}"


def _heterogeneous(guest: Guest) -> list[str]:
    """The firmware's table of latencies and bandwidths (HMAT), from every node with CPUs to all memory."""
    options = ["-machine", "hmat=on"]
    for source in range(guest.nodes):
        for target in range(guest.nodes + guest.slow_nodes):
            speed = OWN if source == target else OTHERS if target < guest.nodes else SLOW
            pair = f"hmat-lb,initiator={source},target={target},hierarchy=memory"
            options += ["-numa", f"{pair},data-type=access-latency,latency={speed.nanoseconds}"]
            options += ["-numa", f"{pair},data-type=access-bandwidth,bandwidth={speed.mebibytes_per_second}M"]
    return options


def _command_script(guest: Guest, job: Job) -> str:
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMAUDIT_GUEST": guest.kernel.series,
        **job.environment,
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    return f"{exports}cd {shlex.quote(str(CHECKOUT))}\n{shlex.join(job.command)}\n"


@contextlib.contextmanager
def _ending_with_us(command: Sequence[str], log: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """A child that ends when the block does, and also when this process is killed."""
    command = [tool("setpriv"), "--pdeathsig", "KILL", *command]
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else None
        stdin = subprocess.DEVNULL if log else None
        child = stack.enter_context(subprocess.Popen(command, stdin=stdin, stdout=output, stderr=output))
        stack.callback(child.kill)
        yield child


@contextlib.contextmanager
def _virtiofsd(socket: Path, folder: Path) -> Iterator[None]:
    # Without the time-out a file edited here during a run is cut, in the guest, at its old length.
    log = folder / "virtiofsd.log"
    command = [str(VIRTIOFSD), f"--socket-path={socket}", "-o", "source=/", "-o", "cache=always,timeout=1"]
    command += ["-o", "sandbox=chroot", "-o", "log_level=err", "-f"]
    with _ending_with_us(command, log) as child:
        deadline = time.monotonic() + 120
        while not socket.exists():
            if child.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"virtiofsd did not start: {log.read_text(errors='replace').strip()}")
            time.sleep(0.01)
        yield


def _wait(qemu: subprocess.Popen[bytes], job: Job, show: IO[str] | None) -> None:
    """Until QEMU ends. Raises GuestDied when the boot or the command takes longer than it may."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    deadline, has_begun = time.monotonic() + BOOT_TIMEOUT, False
    (job.folder / "stdout").touch()
    with (job.folder / "stdout").open("rb") as stdout:
        ended = False
        while not ended:
            ended = qemu.poll() is not None
            if not has_begun and (job.folder / BEGAN).exists():
                deadline, has_begun = time.monotonic() + job.timeout, True
            if show:
                show.write(decoder.decode(stdout.read(), final=ended))
                show.flush()
            if not ended and time.monotonic() > deadline:
                if has_begun:
                    raise GuestDied(_obituary(f"the command did not end in {job.timeout:g} s", job))
                raise GuestDidNotBoot(_obituary(f"the command did not begin in {BOOT_TIMEOUT:g} s", job))
            time.sleep(0 if ended else 0.05)


def _text(job: Job, name: str) -> str:
    path = job.folder / name
    return path.read_text(errors="replace") if path.exists() else ""


def _obituary(what: str, job: Job) -> str:
    """What happened, with the last lines of everything the guest and QEMU wrote."""
    ends = [what, f"--- command: {shlex.join(job.command)}"]
    for name in ("console.log", "qemu.log", "stdout", "stderr"):
        lines = _text(job, name).splitlines()
        if lines:
            ends += [f"--- end of {name}:", *lines[-100:]]
    return "\n".join(ends)
