"""The made-up hosts as values; `host_files.py` writes them as trees."""

from __future__ import annotations

from collections.abc import Callable

from hosts.host_files import GIB, KIB, MIB, Group, Host, HugePages, Node, Process, Thread


def hex_id(seed: str) -> str:
    """A container id: 64 hex digits that one can tell apart by eye."""
    return (seed * 64)[:64]


def uid(seed: str) -> str:
    """A pod UID of the API server: 36 characters with dashes."""
    return f"{seed * 8}-{seed * 4}-4{seed * 3}-8{seed * 3}-{seed * 12}"[:36]


def maps(*lines: str) -> str:
    return "".join(f"{0x7F0000000000 + 0x10000000 * number:x} {line}\n" for number, line in enumerate(lines))


def mounts(*pairs: str) -> str:
    """`root point` pairs as the lines of /proc/PID/mountinfo."""
    lines = [f"{200 + number} 100 0:40 {pair} rw,relatime - tmpfs tmpfs rw\n" for number, pair in enumerate(pairs)]
    return "".join(["100 99 0:41 / / rw,relatime - overlay overlay rw\n", *lines])


def eight_nodes() -> Host:
    """Two sockets of four nodes each; containers on one node, on the wrong node, and on all of them."""
    rows = ["10 11 12 12 32 32 32 32", "11 10 12 12 32 32 32 32", "12 12 10 11 32 32 32 32", "12 12 11 10 32 32 32 32"]
    rows += [" ".join(row.split()[4:] + row.split()[:4]) for row in rows]
    nodes = [Node(one, f"{4 * one}-{4 * one + 3}", 4096, rows[one]) for one in range(8)]
    local, wrong, wide = uid("a"), uid("b"), uid("c")
    processes = [
        Process(2001, "db", "0::/\n", maps("default heap anon=1024 N3=1024 kernelpagesize_kB=4"),
                mounts(f"/pods/{local}/containers/db/0123abcd /dev/termination-log")),
        Process(2002, "cache", "0::/\n", maps("bind:0 anon=51200 N0=51200 kernelpagesize_kB=4"),
                mounts(f"/pods/{wrong}/containers/cache/0123abcd /dev/termination-log")),
        Process(2003, "solver", "0::/\n", maps("interleave:0-7 anon=65536 " + " ".join(f"N{n}=8192" for n in range(8))
                                               + " kernelpagesize_kB=4"),
                mounts(f"/pods/{wide}/containers/solver/0123abcd /dev/termination-log")),
    ]  # fmt: skip
    groups = [
        Group("/", {"anon": {0: 2 * MIB}, "cache": {0: 30 * MIB, 4: 10 * MIB}, "slab": dict.fromkeys(range(8), MIB)}),
        Group("/kubepods"),
        Group(f"/kubepods/pod{local}"),
        Group(f"/kubepods/pod{local}/{hex_id('a1')}", {"anon": {3: 300 * MIB}, "cache": {3: 5 * MIB, 0: MIB}},
              mems="3", cpus="12-15", procs=(2001,)),
        Group(f"/kubepods/pod{wrong}"),
        Group(f"/kubepods/pod{wrong}/{hex_id('b1')}", {"anon": {0: 200 * MIB}, "shmem": {0: 8 * MIB, 5: 4 * MIB}},
              mems="0,5", cpus="20-23", procs=(2002,)),
        Group("/kubepods/burstable"),
        Group(f"/kubepods/burstable/pod{wide}"),
        Group(f"/kubepods/burstable/pod{wide}/{hex_id('c1')}", {"anon": dict.fromkeys(range(8), 32 * MIB)},
              procs=(2003,)),
        Group("/system.slice"),
        Group("/system.slice/sshd.service", {"anon": {6: 3 * MIB}, "cache": {6: 2 * MIB}}),
    ]  # fmt: skip
    logs = (f"prod_db-0_{local}", f"prod_cache-7d9f_{wrong}")
    return Host(nodes, groups, processes, cpus_per_socket=16, threads=2, pod_logs=logs)


def memory_only_node() -> Host:
    """Node 2 has memory and no CPUs (CXL), node 3 CPUs and no memory, node 1 is offline, and 4 never was."""
    nodes = [
        Node(0, "0-3", 2048, "10 17 21 28"),
        Node(2, "", 8192, "17 10 28 35"),
        Node(3, "4-5", 0, "21 28 10 17"),
        Node(5, "6-7", 2048, "28 35 17 10"),
    ]
    groups = [
        Group("/", {"anon": {0: 4 * MIB}, "cache": {0: 10 * MIB, 2: 100 * MIB}}),
        Group("/tiered", {"anon": {0: 256 * MIB, 2: 1 * GIB}}, mems="0,2", cpus="0-3"),
        Group("/near", {"anon": {5: 128 * MIB}}, mems="5", cpus="6-7"),
        Group("/homeless", {"anon": {0: 16 * MIB, 5: 48 * MIB}}, cpus="4-5"),
    ]
    return Host(nodes, groups, possible="0-7")


def tiered() -> Host:
    """Nodes 2 and 3 have no CPUs and slow memory. Of `demoted`, which may use node 0 alone, the kernel has moved some
    there; `promoted` is back on node 1, `cold` may use its slow node, and `untouched` is where it should be."""
    nodes = [
        Node(0, "0-3", 2048, "10 12 20 32", speed=(100, 20480), near=0),
        Node(1, "4-7", 2048, "12 10 32 20", speed=(100, 20480), near=1),
        Node(2, "", 4096, "20 32 10 12", speed=(600, 4096), near=0),
        Node(3, "", 4096, "32 20 12 10", speed=(600, 4096), near=1),
    ]
    groups = [
        Group("/", {"anon": {0: 4 * MIB}, "cache": {0: 10 * MIB, 2: 20 * MIB}}),
        Group("/demoted", {"anon": {0: 312 * MIB, 2: 71 * MIB, 3: 77 * MIB}}, mems="0", cpus="0-3",
              moved={"pgdemote_kswapd": {0: 37_876}, "pgdemote_direct": {0: 3456}}),
        Group("/promoted", {"anon": {1: 200 * MIB}}, mems="1", cpus="4-7",
              moved={"pgdemote_kswapd": {1: 32_521}, "pgpromote_success": {1: 32_521}}),
        Group("/cold", {"anon": {0: 100 * MIB, 2: 300 * MIB}}, mems="0,2", cpus="0-3",
              moved={"pgdemote_kswapd": {0: 76_800}}),
        Group("/untouched", {"anon": {1: 64 * MIB}}, mems="1", cpus="4-7"),
    ]  # fmt: skip
    return Host(nodes, groups, tiers={4: "0-1", 135: "2-3"}, demotion=True, numa_balancing=2)


def huge_pages() -> Host:
    """2 MiB and 1 GiB pages in use, by node and by container, private, shared and in the root cgroup."""
    two = (HugePages(2048, 256, 192), HugePages(1048576, 2, 1))
    more = (HugePages(2048, 128, 88, surplus=8), HugePages(1048576, 2, 2))
    nodes = [Node(0, "0-3", 8192, "10 21", two), Node(1, "4-7", 8192, "21 10", more)]
    dpdk, kvm = hex_id("d1"), hex_id("e1")
    processes = [
        Process(1, "init", "0::/\n", maps(
            "default heap anon=128 dirty=128 N0=128 kernelpagesize_kB=4",
            "default file=/anon_hugepage\\040(deleted) huge anon=8 dirty=8 N1=8 kernelpagesize_kB=2048",
        )),
        Process(301, "forwarder", f"0::/docker/{dpdk}\n", maps(
            "default file=/usr/bin/forwarder mapped=40 N0=40 kernelpagesize_kB=4",
            "bind:0 file=/dev/hugepages/rtemap_0 huge dirty=64 N0=64 kernelpagesize_kB=2048",
            "bind=static:0 file=/dev/hugepages1G/rtemap_1 huge dirty=1 N0=1 kernelpagesize_kB=1048576",
            "default stack anon=4 dirty=4 N0=4 kernelpagesize_kB=4",
        )),
        Process(302, "guest", f"0::/docker/{kvm}\n", maps(
            "prefer (many):0-1 anon=2048 dirty=2048 N0=1024 N1=1024 kernelpagesize_kB=4",
            "weighted interleave:0-1 file=/memfd:guest-ram\\040(deleted) dirty=512 N0=256 N1=256 kernelpagesize_kB=4",
            "default file=/dev/hugepages/a\\012b huge dirty=32 N1=32 kernelpagesize_kB=2048",
        )),
    ]  # fmt: skip
    groups = [
        Group("/", {"anon": {0: 512 * KIB}, "cache": {0: 6 * MIB, 1: 2 * MIB}}, procs=(1,)),
        Group("/docker"),
        Group(f"/docker/{dpdk}", {"anon": {0: MIB}, "cache": {0: MIB}, "tables": {0: 64 * KIB}},
              {"2MB": {0: 64 * 2 * MIB}, "1GB": {0: GIB}}, mems="0", cpus="0-3", procs=(301,)),
        Group(f"/docker/{kvm}", {"anon": {0: 4 * MIB, 1: 4 * MIB}, "shmem": {0: MIB, 1: MIB}, "stacks": {1: 32 * KIB}},
              {"2MB": {1: 32 * 2 * MIB}}, cpus="4-7", procs=(302,)),
    ]  # fmt: skip
    return Host(nodes, groups, processes, huge_sizes=("2MB", "1GB"))


def systemd_crio() -> Host:
    """The systemd driver with CRI-O: every shape of cgroup that such a node has beside its pods."""
    nodes = [Node(0, "0-7", 16384, "10 20"), Node(1, "8-15", 16384, "20 10")]
    web, batch, static = uid("1"), uid("2"), "0a" * 16
    inner_docker, inner_systemd = uid("3"), uid("4")

    def pod(of: str, tier: str = "") -> str:
        top = f"/kubepods.slice/kubepods-{tier}.slice/kubepods-{tier}-" if tier else "/kubepods.slice/kubepods-"
        return f"{top}pod{of.replace('-', '_')}.slice"

    kind = f"/system.slice/docker-{hex_id('d1')}.scope"
    nested = f"{kind}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
    nested_pod = f"{nested}/kubelet-kubepods-burstable-pod{inner_systemd.replace('-', '_')}.slice"
    sandbox = f"/containers/storage/overlay-containers/{hex_id('a0')}/userdata"
    processes = [
        Process(501, "pause", "0::/\n", maps("default anon=10 N1=10 kernelpagesize_kB=4"),
                mounts(f"{sandbox}/hostname /etc/hostname", f"{sandbox}/resolv.conf /etc/resolv.conf")),
        Process(502, "nginx", "0::/\n", maps("default heap anon=5120 N0=5120 kernelpagesize_kB=4"),
                mounts(f"{sandbox}/hostname /etc/hostname", f"{sandbox}/resolv.conf /etc/resolv.conf",
                       f"/kubelet/pods/{web}/containers/nginx/0f0f0f0f /dev/termination-log")),
        Process(503, "conmon", "0::/\n", maps("default heap anon=64 N0=64 kernelpagesize_kB=4")),
        Process(504, "job", "0::/\n", maps("prefer:1 anon=25600 N1=25600 kernelpagesize_kB=4"),
                mounts(f"/kubelet/pods/{batch}/containers/job/0f0f0f0f /dev/termination-log")),
        Process(505, "etcd", "0::/\n", maps("default anon=12800 N0=12800 kernelpagesize_kB=4"),
                mounts(f"/kubelet/pods/{static}/containers/etcd/0f0f0f0f /dev/termination-log")),
    ]  # fmt: skip
    groups = [
        Group("/", {"cache": {0: 40 * MIB, 1: 4 * MIB}, "slab": {0: 20 * MIB, 1: 12 * MIB}}),
        Group("/init.scope", {"anon": {0: 6 * MIB}, "cache": {0: 4 * MIB}}),
        Group("/kubepods.slice"),
        Group(pod(web)),
        Group(f"{pod(web)}/crio-{hex_id('a0')}.scope", {"anon": {1: 40 * KIB}}, procs=(501,)),
        Group(f"{pod(web)}/crio-{hex_id('a1')}.scope", {"anon": {0: 20 * MIB}, "cache": {0: 9 * MIB, 1: MIB}},
              mems="0", cpus="2-3", procs=(502,)),
        Group(f"{pod(web)}/crio-conmon-{hex_id('a1')}.scope", {"anon": {0: 256 * KIB}}, procs=(503,)),
        Group("/kubepods.slice/kubepods-besteffort.slice"),
        Group(pod(batch, "besteffort")),
        Group(f"{pod(batch, 'besteffort')}/crio-{hex_id('b1')}.scope", {"anon": {1: 100 * MIB}}, cpus="0-1,4-7",
              procs=(504,)),
        Group("/kubepods.slice/kubepods-burstable.slice"),
        Group(pod(static, "burstable")),
        Group(f"{pod(static, 'burstable')}/crio-{hex_id('c1')}.scope", {"anon": {0: 50 * MIB}}, procs=(505,)),
        # A container that runs a systemd of its own: its groups are its own business.
        Group(f"{pod(static, 'burstable')}/crio-{hex_id('c1')}.scope/system.slice"),
        Group(f"{pod(static, 'burstable')}/crio-{hex_id('c1')}.scope/system.slice/cron.service", {"anon": {1: MIB}}),
        Group("/machine.slice"),
        Group(f"/machine.slice/libpod-{hex_id('e1')}.scope", {"anon": {1: 30 * MIB}}),
        Group(f"/machine.slice/libpod-{hex_id('e1')}.scope/container", {"anon": {1: 2 * MIB}}),
        Group("/system.slice"),
        Group("/system.slice/crio.service", {"anon": {0: 60 * MIB}, "cache": {0: 30 * MIB}}),
        Group("/system.slice/kubelet.service", {"anon": {0: 80 * MIB}}),
        # A whole Kubernetes node in a container, once with each driver inside.
        Group(kind, {"anon": {0: 5 * MIB}}),
        Group(f"{kind}/kubelet.slice"),
        Group(f"{kind}/kubelet.slice/kubelet-kubepods.slice"),
        Group(nested),
        Group(nested_pod),
        Group(f"{nested_pod}/cri-containerd-{hex_id('d2')}.scope", {"anon": {1: 70 * MIB}}, cpus="0-7"),
        Group("/docker"),
        Group(f"/docker/{hex_id('f1')}", {"anon": {0: 7 * MIB}}),
        Group(f"/docker/{hex_id('f1')}/kubelet"),
        Group(f"/docker/{hex_id('f1')}/kubelet/kubepods"),
        Group(f"/docker/{hex_id('f1')}/kubelet/kubepods/besteffort"),
        Group(f"/docker/{hex_id('f1')}/kubelet/kubepods/besteffort/pod{inner_docker}"),
        Group(f"/docker/{hex_id('f1')}/kubelet/kubepods/besteffort/pod{inner_docker}/{hex_id('f2')}",
              {"anon": {0: 11 * MIB}}),
        Group("/user.slice"),
        Group("/user.slice/user-1000.slice"),
        Group("/user.slice/user-1000.slice/session-3.scope", {"anon": {0: 3 * MIB}}),
        Group("/user.slice/user-1000.slice/user@1000.service"),
        Group("/user.slice/user-1000.slice/user@1000.service/app.slice"),
        Group("/user.slice/user-1000.slice/user@1000.service/app.slice/vs\\x2dcode.service", {"anon": {0: 400 * MIB}}),
        Group("/user.slice/user-1000.slice/user@1000.service/app.slice/name with spaces é", {"anon": {0: 2 * MIB}}),
    ]  # fmt: skip
    logs = (f"shop_web-5c9_{web}", f"jobs_batch-x7k2p_{batch}", f"kube-system_etcd-node1_{static}", "not-a-pod-folder")
    return Host(nodes, groups, processes, pod_logs=logs, cpus_per_socket=8, threads=2, numa_balancing=0)


def cgroup_v1() -> Host:
    """cgroup v1 only, with a cpuset hierarchy that is cut another way than the memory hierarchy."""
    nodes = [Node(0, "0-1", 4096, "10 21", (HugePages(2048, 16, 8),)), Node(1, "2-3", 4096, "21 10")]
    docker = f"/docker/{hex_id('9')}"
    processes = [
        Process(701, "mysqld", f"3:cpuset:{docker}\n2:memory:{docker}\n", maps(
            "default heap anon=2560 N0=2560 kernelpagesize_kB=4",
            "default file=/SYSV00000000\\040(deleted) dirty=256 N1=256 kernelpagesize_kB=4",
            "default file=/anon_hugepage\\040(deleted) huge anon=8 N0=8 kernelpagesize_kB=2048",
        )),
        Process(702, "cron", "3:cpuset:/\n2:memory:/system.slice/cron.service\n", maps(
            "local anon=256 N1=256 kernelpagesize_kB=4",
        )),
    ]  # fmt: skip
    groups = [
        Group("/", {"anon": {0: MIB}, "cache": {0: 20 * MIB}}),
        Group("/docker"),
        Group(docker, {"anon": {0: 10 * MIB}, "shmem": {1: MIB}, "cache": {1: 8 * MIB}, "locked": {0: 3 * MIB}},
              {"2MB": {0: 8 * 2 * MIB}}, mems="0", cpus="0-1", procs=(701,)),
        Group("/system.slice", {"cache": {0: 2 * MIB}}),
        Group("/system.slice/cron.service", {"anon": {1: MIB}}, procs=(702,)),
        Group("/system.slice/idle.service", {"cache": {1: MIB}}),
    ]  # fmt: skip
    return Host(nodes, groups, processes, v1=True, cpuset_paths=frozenset({"/", "/docker", docker}),
                cpus_per_socket=2, huge_sizes=("2MB",))  # fmt: skip


def ranks() -> Host:
    """A pod of four ranks that spans two nodes: two are local, one has a thread without affinity, and one used memory
    before it was bound. Beside it the two ranks of a step of a Slurm job, which are local; one interleaves a buffer."""
    nodes = [Node(0, "0-7", 8192, "10 21"), Node(1, "8-15", 8192, "21 10")]
    job, pod, container = "/system.slice/slurmstepd.scope/job_77", uid("7"), hex_id("7a")

    def process(pid: int, node: int, pages: str, *more: Thread, comm: str = "python3", extra: str = "") -> Process:
        cpus, policy = nodes[node].cpus, f"bind:{node}"
        threads = (Thread(pid, cpus, 8 * node, 600, policy), *more)
        lines = [f"{policy} file=/usr/bin/rank mapped=20 N0=20 kernelpagesize_kB=4",
                 f"{policy} anon=1 {pages} kernelpagesize_kB=4", *([extra] if extra else [])]  # fmt: skip
        mount = mounts(f"/pods/{pod}/containers/server/0123abcd /dev/termination-log") if pid < 5000 else ""
        return Process(pid, comm, "0::/\n", maps(*lines), mount, threads, str(pid - 4100 + 1) if pid < 5000 else "")

    def thread(id_: int, node: int, seconds: int, name: str = "python3") -> Thread:
        return Thread(id_, nodes[node].cpus, 8 * node + 1, seconds, f"bind:{node}", name)

    processes = [
        process(4101, 0, "N0=262144", thread(4111, 0, 200), comm="VLLM::Worker_TP0"),
        process(4102, 0, "N0=262144", thread(4112, 0, 200), comm="VLLM::Worker_TP1"),
        process(4103, 1, "N1=262144", Thread(4113, "0-15", 3, 200, "default", "nccl-net"), comm="VLLM::Worker_TP2"),
        process(4104, 1, "N0=65536 N1=196608", thread(4114, 1, 200), comm="VLLM::Worker_TP3"),
        process(5101, 0, "N0=131072", thread(5111, 0, 10), comm="solver"),
        process(5102, 1, "N1=131072", comm="solver",
                extra="interleave:0-1 anon=8192 N0=4096 N1=4096 kernelpagesize_kB=4"),
    ]  # fmt: skip
    groups = [
        Group("/", {"anon": {0: MIB}}),
        Group("/kubepods"),
        Group(f"/kubepods/pod{pod}"),
        Group(f"/kubepods/pod{pod}/{container}", {"anon": {0: 2304 * MIB, 1: 1792 * MIB}}, mems="0-1", cpus="0-15",
              procs=(4101, 4102, 4103, 4104)),
        Group("/system.slice"),
        Group("/system.slice/slurmstepd.scope"),
        Group(job),
        Group(f"{job}/step_0"),
        Group(f"{job}/step_0/user"),
        Group(f"{job}/step_0/user/task_0", {"anon": {0: 512 * MIB}}, procs=(5101,)),
        Group(f"{job}/step_0/user/task_1", {"anon": {0: 16 * MIB, 1: 528 * MIB}}, procs=(5102,)),
        Group(f"{job}/step_extern", {"anon": {0: MIB}}),
        Group("/system.slice/slurmstepd.scope/system", {"anon": {0: 2 * MIB}}),
    ]  # fmt: skip
    return Host(nodes, groups, processes, pod_logs=(f"ml_vllm-0_{pod}",), cpus_per_socket=8)


HOSTS: dict[str, Callable[[], Host]] = {
    "eight-nodes": eight_nodes,
    "memory-only-node": memory_only_node,
    "tiered": tiered,
    "huge-pages": huge_pages,
    "systemd-crio": systemd_crio,
    "cgroup-v1": cgroup_v1,
    "ranks": ranks,
}
