"""Findings about a checkpoint, by name: how bad each is and what to do about it.

The names are a closed set; docs/state.md explains each. Numbers such as kubernetes/kubernetes#131253
there are upstream reports of the same trouble.
"""

from __future__ import annotations

from typing import Literal, Self

from msgspec import Struct

from numaudit.encoding.value import Value

StateSeverity = Literal["error", "warning", "info"]
Stops = Literal["start", "now", "maybe", "unknown", "second start", "reboot", "nothing"]
"""`now`: it does not start, but after a reboot it may. `maybe`: whether the kubelet starts is a matter of chance.
`unknown`: it cannot be known here. `second start`: it starts, and then makes of the file what it does not start with
again."""
StartAnswer = Literal["yes", "no", "at risk", "once", "unknown"]
"""`at risk`: it depends on chance, or on what the next boot makes of the machine. `once`: it starts, and makes of the
file what it does not start with again. `unknown`: no machine to compare, or what decides about it is not known."""
KEEPS_FROM_STARTING: tuple[Stops, ...] = ("start", "now", "maybe")
"""Of these the kubelet may not start at this moment."""
MAKES_A_RESTART_UNSAFE: tuple[Stops, ...] = (*KEEPS_FROM_STARTING, "second start")

CONFIGURATION_REFUSED = "configuration-refused"
CHECKPOINT_ABSENT = "checkpoint-absent"

_DRAIN = (
    "Drain the node (kubectl drain NODE --ignore-daemonsets), stop the kubelet, delete the file, start the kubelet, "
    "uncordon the node. The kubelet writes a new file and places the pods again."
)


class Meaning(Struct, frozen=True):
    """Severity, effect and remedy of all findings with one name."""

    severity: StateSeverity
    stops: Stops
    """The start that this prevents: any start, the next one, the one after a reboot, or none."""
    remedy: str


class StateFinding(Value, frozen=True):
    """One thing found in a checkpoint."""

    name: str
    """Name of the finding; docs/state.md explains each."""
    severity: StateSeverity
    """Severity of the finding."""
    message: str
    """The finding, with its numbers."""
    remedy: str
    """Remedy."""
    where: str
    """The place in the file, such as `machineState.1.memoryMap.memory`; empty = the file as a whole."""
    stops: Stops
    """The start that this prevents. start: any. now: any before a reboot. maybe: that is a matter of
    chance. unknown: it cannot be known here. second start: it starts once. reboot: it may not start after one."""

    @classmethod
    def of(cls, name: str, message: str, where: str = "", stops: Stops | None = None) -> Self:
        """`name`: a key of MEANINGS, which says what it stops unless `stops` does.

        What keeps the kubelet from starting is an error, also where it is harmless to another kubelet.
        """
        if name not in MEANINGS:
            raise ValueError(f"unknown finding {name!r}: add it to MEANINGS and to docs/state.md")
        meaning = MEANINGS[name]
        stops = stops or meaning.stops
        return cls(
            name, "error" if stops in ("start", "now") else meaning.severity, message, meaning.remedy, where, stops
        )


MEANINGS: dict[str, Meaning] = {
    # Any file, or none
    CONFIGURATION_REFUSED: Meaning(
        "error",
        "start",
        "With this configuration the kubelet does not start, whatever the checkpoint. Correct what the message names "
        "before it restarts.",
    ),
    CHECKPOINT_ABSENT: Meaning(
        "warning",
        "nothing",
        "The running kubelet writes the file again with its next promise. If it restarts before that, it chooses "
        "nodes again for pods whose memory stays where it is: drain the node before the kubelet restarts.",
    ),
    "unreadable": Meaning("error", "start", f"The file is damaged. {_DRAIN}"),
    "checksum-mismatch": Meaning(
        "error", "start", f"The file was edited or damaged after the kubelet wrote it. {_DRAIN}"
    ),
    "checksum-missing": Meaning(
        "warning", "nothing", "No checksum protects this file. Find out who wrote a checksum of 0 into it."
    ),
    "unknown-key": Meaning(
        "warning", "nothing", "The kubelet ignores this key and drops it at the next write. Find out who added it."
    ),
    "newer-key": Meaning(
        "info",
        "nothing",
        "A newer kubelet than this version of numaudit knows wrote the file. Older kubelets ignore the key and drop it "
        "at their next write; ask a newer numaudit what it means.",
    ),
    "format-not-accepted": Meaning(
        "error",
        "start",
        "This kubelet does not read a file of that format: turn the feature gate PodLevelResourceManagers back on "
        f"(or go back to the newer kubelet), or give up the promises: {_DRAIN}",
    ),
    "format-unknown": Meaning(
        "error",
        "unknown",
        "A newer kubelet or a development version wrote this file, in a format that this version of numaudit does not "
        "know. Leave the file alone, keep the kubelet that wrote it, and ask a newer numaudit.",
    ),
    "downgrade-loses-pods": Meaning(
        "warning",
        "nothing",
        "A kubelet before 1.37 reads the part of the file that has no pod-level entries, so it no longer knows what "
        "those pods hold as a whole. Delete these pods before you go back to the older kubelet.",
    ),
    "more-findings": Meaning("info", "nothing", "See the file itself: many more places have the same finding."),
    "format-old": Meaning(
        "error",
        "unknown",
        "No kubelet since 1.18 writes this format, so numaudit does not read it. A newer kubelet rewrites the "
        "file when it starts.",
    ),
    "policy-unknown": Meaning(
        "error",
        "start",
        f"No manager has a policy of this name, so the configured policy cannot be the one in the file. {_DRAIN}",
    ),
    "policy-changed": Meaning(
        "error",
        "start",
        "The kubelet never starts with a file of another policy. Set the policy in its configuration back to that of "
        f"the file, or give up the promises: {_DRAIN}",
    ),
    "state-differs": Meaning(
        "error", "start", f"The kubelet compares the file with the machine and refuses this difference. {_DRAIN}"
    ),
    # memory_manager_state
    "machine-state-missing": Meaning("error", "start", f"There are promises without a memory map. {_DRAIN}"),
    "table-inconsistent": Meaning(
        "warning",
        "nothing",
        "The kubelet does not notice, but its accounting of this node is wrong. Drain the node when convenient and "
        "delete the file.",
    ),
    "reservation-too-large": Meaning(
        "warning",
        "nothing",
        "More is reserved on this node than it has, so the kubelet counts a huge number of bytes as allocatable. "
        "Lower reservedMemory for this node.",
    ),
    "groups-overlap": Meaning(
        "error",
        "maybe",
        "A node is in two groups at once. Whether the kubelet starts depends on the random order in which it replays "
        f"the promises. Kubernetes 1.32 and newer no longer make such groups. {_DRAIN}",
    ),
    "entries-do-not-add-up": Meaning(
        "error",
        "start",
        "The promises in the file do not lead to the machine state in the same file, so the kubelet refuses it on "
        f"any machine. {_DRAIN}",
    ),
    "cross-node-release-drift": Meaning(
        "info",
        "nothing",
        "The group as a whole adds up; only the split over its nodes is off, because memory over several nodes is "
        "released from the first node on. Kubernetes 1.31 and older refuse to start: drain the node and delete the "
        "file before such a kubelet restarts, or upgrade to 1.32.",
    ),
    "assignment-to-missing-node": Meaning(
        "error", "start", f"A container holds memory of a node or of a type that this machine does not have. {_DRAIN}"
    ),
    "memory-total-drift": Meaning(
        "error",
        "start",
        "Nothing is broken: at each boot the kernel puts its image (some 50 MiB) elsewhere (KASLR), at times on "
        f"another node, and the kubelet compares the exact size. {_DRAIN} "
        "Before the next planned reboot drain first and delete the file.",
    ),
    "memory-size-changed": Meaning(
        "error",
        "start",
        "Memory was added, removed or failed, or the kernel is limited to less (mem=, memmap=, memory hot-plug). "
        f"Check the machine, then: {_DRAIN}",
    ),
    "huge-pages-changed": Meaning(
        "error",
        "now",
        "Set the number of huge pages of this node back to what the file says (nr_hugepages of the node in sysfs), at "
        "boot and before the kubelet starts, or accept the new number: " + _DRAIN,
    ),
    "huge-page-sizes-changed": Meaning(
        "error",
        "start",
        "The kernel offers other huge page sizes than when the file was written (another CPU model, kernel or kernel "
        f"parameter). {_DRAIN}",
    ),
    "nodes-changed": Meaning(
        "error",
        "start",
        "The machine has other NUMA nodes than when the file was written (sub-NUMA clustering, CXL memory, another "
        f"machine). Check the firmware settings, then: {_DRAIN}",
    ),
    "reboot-may-change-totals": Meaning(
        "info",
        "reboot",
        "The kubelet compares each node's MemTotal exactly, and a boot may change it. Drain the node and "
        "delete the file before a planned reboot, or run `numaudit state verify` after the boot and before the kubelet "
        "starts.",
    ),
    "stale-pod-entries": Meaning(
        "warning",
        "nothing",
        "The checksum does not cover podEntries: the file was written without them and they were left over or added. "
        "A kubelet with the gate PodLevelResourceManagers may keep them as if pods still held that memory. Drain the "
        "node and delete the file.",
    ),
    "pod-level-incomplete": Meaning(
        "warning",
        "nothing",
        "The kubelet takes this for a complete restore, but a pod's own blocks and those of its containers do not fit "
        "together: its containers may run unpinned, or its memory is never given back. Delete that pod; when the entry "
        "stays, drain the node and delete the file.",
    ),
    "pod-level-charged-again": Meaning(
        "warning",
        "second start",
        "Kubernetes 1.36 does not check whether a pod with pod-level resources has its memory and CPUs already: when "
        "it restarts it charges them a second time, and then does not start again. Delete these pods before the "
        "kubelet restarts, or turn PodLevelResourceManagers off on a drained node.",
    ),
    "reservation-changed": Meaning(
        "error",
        "start",
        "The kubelet's configuration reserves other memory for the system than when the file was written. Set "
        f"reservedMemory (and systemReserved, kubeReserved, evictionHard) back, or give up the promises: {_DRAIN}",
    ),
    "reservation-not-known": Meaning(
        "warning",
        "nothing",
        "What the kubelet's configuration reserves could not be worked out, so the reservations in the file are "
        "assumed. A kubelet may refuse this configuration: correct what the message names.",
    ),
    # cpu_manager_state
    "cpu-state-refused": Meaning("error", "start", f"The kubelet refuses this CPU state. {_DRAIN}"),
    "cpus-not-in-state": Meaning(
        "warning",
        "nothing",
        "The kubelet starts only if strict-cpu-reservation keeps exactly these CPUs from pods. If not, CPUs came "
        f"online or the reserved set changed. {_DRAIN}",
    ),
    # kubelet_internal_checkpoint
    "devices-lost": Meaning(
        "error",
        "nothing",
        "The kubelet starts, but forgets which devices its containers hold, and may hand them out again. Drain the "
        "node, stop the kubelet, delete the file, start the kubelet.",
    ),
}
