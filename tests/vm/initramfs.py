"""What a guest boots with: busybox, the modules it needs to see the host's files, and the script that mounts them."""

from __future__ import annotations

import lzma
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from debian import tool
from kernels import Kernel, module_files
from userland import Userland

MODULES = ("virtio_pci", "virtiofs", "overlay")

BEGAN = "began"
"""The guest makes this file in the shared folder just before the command."""

COMMAND = "command.sh"
"""What the guest runs, in the shared folder."""

_INIT = """\
#!/bin/sh
set -e
/bin/busybox mkdir -p /proc /sys /dev /lower /rw /new
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in {modules}; do insmod /modules/$module; done
mount -t virtiofs root /lower
mount -t tmpfs -o size=50% tmpfs /rw
{overlays}
mkdir -p /new{shared}
mount -o bind /lower{shared} /new{shared}
mount -t proc proc /new/proc
mount -t sysfs sysfs /new/sys
mount -t devtmpfs devtmpfs /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs tmpfs /new/run
mount -t tmpfs tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t tracefs tracefs /new/sys/kernel/tracing
mount -t debugfs debugfs /new/sys/kernel/debug
mount -t bpf bpf /new/sys/fs/bpf
ip link set lo up
cd /new/sys/kernel/debug/sched/numa_balancing
echo 100 >scan_delay_ms; echo 200 >scan_period_min_ms; echo 1000 >scan_period_max_ms
cd /
set +e
>/new{folder}/{began}
{start}
echo $? >/new{folder}/rc
sync
poweroff -f
"""


_OVERLAY = """\
mkdir -p /rw/{number}/upper /rw/{number}/work /new{at}
mount -t overlay -o lowerdir=/lower{folder},upperdir=/rw/{number}/upper,workdir=/rw/{number}/work overlay /new{at}"""


def build(kernel: Kernel, programs: Userland, folder: Path, *, shared: Path, on_terminal: bool) -> Path:
    """A cpio archive in `folder`, which the kernel unpacks itself; the guest shares `shared`, around it, at its path.

    Raises Unavailable when a tool or a module is missing.
    """
    tree = folder / "initramfs"
    for name in ("bin", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(programs.busybox, tree / "bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    modules = []
    for file in module_files(kernel, MODULES):
        packed = file.read_bytes()
        plain = file.name.removesuffix(".xz")
        (tree / "modules" / plain).write_bytes(lzma.decompress(packed) if plain != file.name else packed)
        modules.append(plain)
    start = _start(shlex.quote(str(folder)), on_terminal)
    (tree / "init").write_text(_script(folder, shared, modules, programs.folders, start))
    (tree / "init").chmod(0o755)
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    archive = folder / "initramfs.cpio"
    with archive.open("wb") as output:
        packing = [tool("cpio"), "--quiet", "-o", "-H", "newc"]
        subprocess.run(packing, cwd=tree, input=names.encode(), stdout=output, check=True)
    shutil.rmtree(tree)
    return archive


def _start(folder: str, on_terminal: bool) -> str:
    start = f"chroot /new /bin/bash {folder}/{COMMAND}"
    if on_terminal:
        return f"setsid cttyhack {start}"
    return f"{start} >/new{folder}/stdout 2>/new{folder}/stderr </dev/null"


def _script(folder: Path, shared: Path, modules: Sequence[str], folders: Mapping[str, str], start: str) -> str:
    overlays = "\n".join(
        _OVERLAY.format(number=number, at=shlex.quote(at), folder=shlex.quote(there))
        for number, (at, there) in enumerate(folders.items())
    )
    return _INIT.format(
        modules=" ".join(modules),
        folder=shlex.quote(str(folder)),
        shared=shlex.quote(str(shared)),
        overlays=overlays,
        began=BEGAN,
        start=start,
    )
