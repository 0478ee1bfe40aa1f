"""Programs that place single mappings of their own: QEMU, DPDK, ScyllaDB, the JVM, MySQL."""

from __future__ import annotations

import re

from numaudit.ranks.declaration import Declaration, Given, Placeable, PolicyKind, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import union
from numaudit.topology.nodeset import CpuSet, NodeSet

_HOST_NODES = re.compile(r"(?:^|,)host-nodes(?:\.\d{1,3})?=([0-9]{1,4}(?:-[0-9]{1,4})?)")
_POLICY = re.compile(r"(?:^|,)policy=(bind|preferred|interleave|default)")
_JSON_NODES = re.compile(r'"host-nodes": ?\[((?:[0-9]{1,4}(?:, ?)?)+)\]')
_JSON_POLICY = re.compile(r'"policy": ?"(bind|preferred|interleave|default)"')
_QEMU_POLICIES: dict[str, PolicyKind] = {"bind": "bind", "preferred": "preferred", "interleave": "interleave"}


def _memory_backend(text: str) -> str | None:
    """Policy and host nodes of a -object, as `bind=0,1`; nothing else of it is kept."""
    if len(text) > 4096 or not text.startswith(("memory-backend-", "{")) or "memory-backend-" not in text[:200]:
        return None
    is_json = text.startswith("{")
    policy = (_JSON_POLICY if is_json else _POLICY).search(text)
    parts = [_JSON_NODES.search(text)] if is_json else list(_HOST_NODES.finditer(text))
    nodes = [one[1].replace(" ", "") for one in parts if one is not None]
    return f"{policy[1]}={','.join(nodes)}" if policy is not None and nodes else None


def _qemu(told: Told, here: Placeable) -> Declaration | None:
    """Several memory backends declare all their nodes; where their policies differ, any."""
    values = [one.value.partition("=") for one in told.own.given if one.program == "qemu" and one.option == "-object"]
    bound = [(policy, nodes) for policy, _, nodes in values if policy in _QEMU_POLICIES]
    if not bound:
        return None
    policies = {policy for policy, _ in bound}
    policy = _QEMU_POLICIES[policies.pop()] if len(policies) == 1 else "any"
    nodes = union(NodeSet, [nodes for _, nodes in bound])
    return Declaration("qemu", "host-nodes", "arguments", policy, nodes, memory_of="mappings")


def _dpdk(told: Told, here: Placeable) -> Declaration | None:
    """Huge pages on the nodes with an amount; lcores are pinned one to one, or as `0@4` says."""
    own = [one for one in told.own.given if one.program in ("eal", "dpdk")]
    nodes = cpus = None
    sizes = _first(own, "--socket-mem") or _first(own, "--numa-mem")
    if sizes is not None:
        nodes = NodeSet.from_ids(node for node, size in enumerate(sizes.split(",")) if size.strip("0"))
    cores = _first(own, "-l") or _first(own, "--lcores")
    if cores is not None and "(" not in cores:
        cpus = CpuSet.parse(",".join(one.rpartition("@")[2] for one in cores.split(",")))
    if nodes is None and cpus is None:
        return None
    source = "--socket-mem" if nodes is not None else "--lcores"
    return Declaration(
        "dpdk", source, "arguments", memory_nodes=nodes, cpus=cpus, memory_of="huge-pages", threads="main"
    )


def _scylla(told: Told, here: Placeable) -> Declaration | None:
    own = [one for one in told.own.given if one.program == "scylla"]
    value = common_value(own, "--cpuset")
    if value is None:
        return None
    return Declaration("scylladb", "--cpuset", "arguments", cpus=CpuSet.parse(value), threads="main")


def _jvm(told: Told, here: Placeable) -> Declaration | None:
    """Each thread allocates on its node, so no node is declared, but some mappings must have a policy. The last of two
    contrary options counts; options after -jar or the main class are the application's.

    With one node allowed the virtual machine ignores both options.
    """
    if len(here.nodes) == 1:
        return None
    is_on = {one.option[5:]: one.option[4] == "+" for one in told.own.given if one.program == "java"}
    for name in ("UseNUMAInterleaving", "UseNUMA"):
        if is_on.get(name):
            policy: PolicyKind = "interleave" if name.endswith("Interleaving") else "any"
            return Declaration("jvm", f"-XX:+{name}", "arguments", policy, memory_of="mappings")
    return None


def _mysql(told: Told, here: Placeable) -> Declaration | None:
    own = [one for one in told.own.given if one.program == "mysql"]
    value = _first(own, "--innodb-numa-interleave")
    if value is None or value.lower() in ("off", "0", "false"):
        return None
    return Declaration("mysql", "--innodb-numa-interleave", "arguments", "interleave", here.nodes, memory_of="mappings")


def _first(own: list[Given], option: str) -> str | None:
    return next((one.value for one in own if one.option == option), None)


_SIZES = form(r"[0-9]{1,9}(?:,[0-9]{1,9})*")
_CORES = form(r"[0-9,\-@()]+", 2048)
_EAL = (
    Option("--socket-mem", ("--socket-mem",), _SIZES),
    Option("--numa-mem", ("--numa-mem",), _SIZES),
    Option("--lcores", ("--lcores",), _CORES),
)
_JAVA_TAKES_NEXT = (
    *("-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules"),
    *("--add-reads", "--add-exports", "--add-opens", "--limit-modules", "--patch-module", "--source"),
)
ROWS = (
    Launcher(
        "qemu",
        "QEMU, libvirt",
        "https://www.qemu.org/docs/master/system/qemu-manpage.html",
        ("host-nodes",),
        _qemu,
        programs=(
            Program(
                "qemu",
                re.compile(r"qemu-system-[a-z0-9_]+|qemu-kvm|kvm"),
                (Option("-object", ("-object", "--object"), _memory_backend),),
            ),
        ),
        tried=("QEMU 7.2",),
    ),
    Launcher(
        "dpdk",
        "DPDK",
        "https://doc.dpdk.org/guides/linux_gsg/linux_eal_parameters.html",
        ("--socket-mem", "--numa-mem", "--lcores", "-l"),
        _dpdk,
        programs=(
            Program("eal", None, _EAL),
            Program("dpdk", re.compile(r"dpdk-[a-z0-9\-]+|testpmd|l[23]fwd"), (Option("-l", ("-l",), _CORES),)),
        ),
        tried=("DPDK 22.11",),
    ),
    Launcher(
        "scylladb",
        "ScyllaDB, Seastar",
        "https://docs.scylladb.com/manual/stable/operating-scylla/",
        ("--cpuset",),
        _scylla,
        programs=(
            Program(
                "scylla",
                re.compile(r"scylla|redpanda|seastar[a-z_\-]*"),
                (Option("--cpuset", ("--cpuset",), form(r"[0-9,\-]+", 2048)),),
            ),
        ),
    ),
    Launcher(
        "jvm",
        "Java virtual machine",
        "https://docs.oracle.com/en/java/javase/21/docs/specs/man/java.html",
        ("-XX:+UseNUMA", "-XX:+UseNUMAInterleaving"),
        _jvm,
        programs=(
            Program(
                "java",
                re.compile(r"java"),
                tuple(
                    Option(f"-XX:{sign}{name}", (f"-XX:{sign}{name}",))
                    for sign in "+-"
                    for name in ("UseNUMA", "UseNUMAInterleaving")
                ),
                takes_next=_JAVA_TAKES_NEXT,
            ),
        ),
        tried=("OpenJDK 25",),
    ),
    Launcher(
        "mysql",
        "MariaDB, MySQL, Percona Server",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html",
        ("--innodb-numa-interleave",),
        _mysql,
        programs=(
            Program(
                "mysql",
                re.compile(r"mysqld|mariadbd"),
                (
                    Option(
                        "--innodb-numa-interleave",
                        ("--innodb-numa-interleave", "--innodb_numa_interleave"),
                        form("ON|OFF|on|off|0|1|true|false|TRUE|FALSE"),
                    ),
                ),
            ),
        ),
        tried=("MariaDB 10.11",),
    ),
)
