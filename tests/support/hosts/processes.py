"""Processes in a made-up /proc, by what the kernel says of them, on a host that counts as running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaudit.kernel.host import Host

STATUS = "Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{ids}\n"
ROOT_MOUNT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n23 22 0:21 / /proc rw - proc proc rw\n"
ALL_USERS = "         0          0 4294967295\n"
KUBELET: Mapping[str, str] = {
    "comm": "kubelet\n",
    "stat": "{pid} (kubelet) S 1" + " 0" * 17 + " 4711" + " 0" * 20 + "\n",
    "status": STATUS.format(uid=0, ids="{pid}"),
    "cgroup": "0::/system.slice/kubelet.service\n",
    "mountinfo": ROOT_MOUNT,
    "uid_map": ALL_USERS,
    "exe": "usr/bin/kubelet",
}
"""Files of a kubelet of the host; `exe` is a link to a file of the tree."""
INIT: Mapping[str, str] = {**KUBELET, "comm": "systemd\n", "cgroup": "0::/init.scope\n"}


def running_host(root: Path) -> Host:
    """With init, and the file that its kubelets are started from."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/kubelet").touch()
    process(root, 1, INIT)
    mirror = root / str(root).lstrip("/")
    mirror.parent.mkdir(parents=True)
    mirror.symlink_to("/")
    return Host(root, is_mounted=True)


def process(root: Path, pid: int, files: Mapping[str, str | None] = KUBELET, arguments: str = "") -> None:
    """One process; a file that is None does not exist."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    for name, text in files.items():
        if name == "exe" and text is not None:
            (folder / name).symlink_to(root / text)
        elif text is not None:
            (folder / name).write_text(text.replace("{pid}", str(pid)))
    words = ["/usr/bin/kubelet", *arguments.split()]
    (folder / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
