"""The table of launchers: what each command line and environment declares."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Runtimes, Told
from numaudit.ranks.launchers import units
from numaudit.ranks.table import LAUNCHERS, declarations, environment_in, given_in
from numaudit.topology.nodeset import CpuSet, NodeSet

FOUR_NODES = Placeable(
    {node: CpuSet.parse(f"{4 * node}-{4 * node + 3}") for node in range(4)},
    NodeSet.parse("0-3"),
    CpuSet.parse("0-15"),
)
TWO_OF_FOUR = replace(FOUR_NODES, nodes=NodeSet.parse("2-3"), cpus=CpuSet.parse("8-15"))

RUNTIMES = Runtimes(frozenset({"openmp", "mpi"}), 4)


def of(*ancestors: str, own: str = "./work", environ: str = "", here: Placeable = FOUR_NODES) -> list[Declaration]:
    """Words are separated by a blank here and by NUL in /proc; `|` stands for a blank within a word."""
    told = Told(
        given_in(_words(own)),
        tuple(given_in(_words(one)) for one in ancestors),
        environment_in(_words(environ)),
        RUNTIMES,
    )
    return list(declarations(told, here))


def _words(text: str) -> bytes:
    return b"".join(word.replace("|", " ").encode() + b"\0" for word in text.split())


def memory(found: list[Declaration]) -> tuple[str, PolicyKind | None, str]:
    """Launcher, policy and nodes of the one that declares memory."""
    one = next(one for one in found if one.has_memory)
    return one.launcher, one.policy, str(one.memory_nodes)


def cpus(found: list[Declaration]) -> tuple[str, str]:
    one = next(one for one in found if one.has_cpus)
    return one.launcher, "one node" if one.cpus is None else str(one.cpus)


@pytest.mark.parametrize(
    ("arguments", "policy", "nodes", "its_cpus"),
    [
        ("--membind=0,2-3", "bind", "0,2-3", None),
        ("-m 1 -N 1", "bind", "1", "4-7"),
        ("-lN0", "local", "None", "0-3"),
        ("-m1 --physcpubind=4,6", "bind", "1", "4,6"),
        ("--mem 1", "bind", "1", None),
        ("--interleave=all", "interleave", "0-3", None),
        ("--preferred-many=!0", "preferred-many", "1-3", None),
        ("-w 0-1 -b", "weighted-interleave", "0-1", None),
        ("-p 3 -C 12-15", "preferred", "3", "12-15"),
    ],
)
def test_options_of_numactl_under_a_shell_are_read(
    arguments: str, policy: PolicyKind, nodes: str, its_cpus: str | None
) -> None:
    found = of(f"timeout 60 numactl {arguments} ./work -m 2")
    assert memory(found) == ("numactl", policy, nodes)
    assert [str(one.cpus) for one in found if one.has_cpus] == ([] if its_cpus is None else [its_cpus])


def test_a_relative_list_of_numactl_counts_within_the_cpuset() -> None:
    assert memory(of("timeout 9 numactl -m +0 ./work", here=TWO_OF_FOUR)) == ("numactl", "bind", "2")
    assert memory(of("timeout 9 numactl -m all ./work", here=TWO_OF_FOUR)) == ("numactl", "bind", "2-3")
    assert memory(of("timeout 9 numactl -a -m all ./work", here=TWO_OF_FOUR)) == ("numactl", "bind", "0-3")


def test_numactl_twice_in_one_command_line_is_not_guessed() -> None:
    (found,) = of("mpirun -n 1 numactl -m 0 ./work : -n 1 numactl -m 1 ./work")
    assert found.unresolved == "an ancestor's command line starts it twice, with different options of numactl"


def test_the_node_of_a_device_is_not_guessed_and_its_name_is_not_kept() -> None:
    (found,) = of("timeout 9 numactl -m netdev:secret0 ./work")
    assert found.unresolved == "netdev: names a device, whose node is not looked up"


def test_numactl_in_the_process_s_own_arguments_is_of_a_child() -> None:
    assert of(own="timeout 9 numactl -m 0 ./work") == []


def test_a_worker_of_vllm_declares_what_its_numactl_got() -> None:
    found = of(environ="HF_TOKEN=hf_secret _VLLM_INTERNAL_NUMACTL_ARGS=--physcpubind=0,1,4|--membind=0")
    assert found == [
        Declaration(
            "vllm",
            "_VLLM_INTERNAL_NUMACTL_ARGS",
            "environment",
            "bind",
            NodeSet.of(0),
            CpuSet.of(0, 1, 4),
        )
    ]
    engine = of(environ="_VLLM_INTERNAL_NUMACTL_ARGS=--cpunodebind=0,1|--membind=0,1")
    assert memory(engine) == ("vllm", "bind", "0-1")
    assert cpus(engine) == ("vllm", "0-7")


def test_vllm_comes_before_numactl_around_it() -> None:
    found = of("timeout 9 numactl -m 0,1 vllm serve", environ="_VLLM_INTERNAL_NUMACTL_ARGS=--membind=1")
    assert memory(found) == ("vllm", "bind", "1")


def test_threads_of_vllm_on_cpus_take_the_part_of_their_rank() -> None:
    numbered = Told(environment={"VLLM_CPU_OMP_THREADS_BIND": "0-3|8-11", "LOCAL_RANK": "1"}, runtimes=RUNTIMES)
    assert [str(one.cpus) for one in declarations(numbered, FOUR_NODES)] == ["8-11"]
    unnumbered = Told(environment={"VLLM_CPU_OMP_THREADS_BIND": "0-3|8-11"}, runtimes=RUNTIMES)
    (unknown,) = declarations(unnumbered, FOUR_NODES)
    assert unknown.unresolved == "the list has a part for each rank, and the process shows no local rank"


def test_sglang_has_a_node_for_each_gpu() -> None:
    worker, server = "sglang::scheduler_TP2", "python3 -m sglang.launch_server --numa-node"
    found = of(f"{server} 0 0 1 1 --port 80", own=worker, environ="LOCAL_RANK=2")
    assert memory(found) == ("sglang", "bound", "1")
    assert cpus(found) == ("sglang", "4-7")
    (unnumbered,) = of(f"{server} 0 1", own=worker)
    assert unnumbered.one_node
    assert str(unnumbered.memory_nodes) == "0-1"
    assert of("./other --numa-node 0", own=worker) == []


def test_sglang_binds_its_schedulers_and_no_other_process() -> None:
    server = "python3 -m sglang.launch_server --numa-node 0"
    assert of(own=server) == of(server, own="sglang::detokenizer") == of(server, own="nvidia-smi") == []


def test_sglang_prefers_a_node_where_version_2_of_its_binding_is_off() -> None:
    server, worker = "python3 -m sglang.launch_server --numa-node 1", "sglang::scheduler_TP0"
    for value, policy in (
        ("0", "preferred"),
        ("False", "preferred"),
        ("1", "bound"),
        ("true", "bound"),
        ("x", "bound"),
    ):
        assert memory(of(server, own=worker, environ=f"SGLANG_NUMA_BIND_V2={value}")) == ("sglang", policy, "1")


def test_sglang_that_finds_the_node_of_a_gpu_itself_is_in_doubt() -> None:
    (found,) = of(own="sglang::scheduler_TP0", environ="SGLANG_NUMA_BIND_V2=1")
    assert (found.policy, found.one_node, found.memory_nodes) == ("bound", True, None)
    assert found.doubt is not None
    assert of(own="sglang::scheduler_TP0", environ="SGLANG_NUMA_BIND_V2=0") == []
    assert of(own="sglang::scheduler_TP0") == of(own="./work", environ="SGLANG_NUMA_BIND_V2=1") == []


@pytest.mark.parametrize(
    "title",
    [
        "ray::Learner",
        "ray::Learner.step",
        "ray::step()",
        "ray::DQNAgent",
        "ray::Learner(id=hunter2).step",
        f"ray::{'x' * 90}",
    ],
)
def test_ray_names_its_actors_and_tasks_and_places_none(title: str) -> None:
    (found,) = of("/opt/ray/raylet", own=title)
    assert (found.launcher, found.source, found.has_placement) == ("ray", "ray::", False)
    assert "hunter2" not in repr(given_in(_words(title)))
    for one_node in (replace(FOUR_NODES, nodes=NodeSet.of(1)), replace(FOUR_NODES, cpus=CpuSet.parse("4-7"))):
        assert of(own=title, here=one_node) == []


@pytest.mark.parametrize(
    "title",
    [
        *("ray::IDLE", "ray::IDLE_SpillWorker", "ray::SPILL_SpillWorker", "ray::RESTORE_RestoreWorker"),
        *("ray::DELETE_SpillWorker", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::", "./ray", "ray start"),
    ],
)
def test_idle_workers_and_agents_of_ray_are_no_actors(title: str) -> None:
    assert of(own=title) == of("ray::Learner", own="./work") == []


def test_what_places_an_actor_of_ray_comes_before_its_title() -> None:
    assert cpus(of("timeout 9 taskset -c 4-7 ./work", own="ray::IDLER.step", environ="RANK=1")) == ("taskset", "4-7")
    assert memory(of(own="ray::Learner", environ="TLLM_NUMA_BIND=1")) == ("tensorrt-llm", "bind", "None")
    (unresolved,) = of(own="ray::Learner", environ="SLURM_MEM_BIND_TYPE=rank SLURM_MEM_BIND_LIST=1")
    assert (unresolved.launcher, unresolved.has_placement) == ("slurm", True)


def test_tensorrt_llm_declares_one_node_whichever() -> None:
    assert cpus(of(environ="TLLM_NUMA_AWARE_WORKER_AFFINITY=1")) == ("tensorrt-llm", "one node")
    assert memory(of(environ="TLLM_NUMA_BIND=1")) == ("tensorrt-llm", "bind", "None")
    assert of(environ="TLLM_NUMA_AWARE_WORKER_AFFINITY=0") == []


def test_torchrun_binds_cpus_of_numbered_ranks() -> None:
    assert cpus(of("python3 -m torch.distributed.run --numa-binding=node x.py", environ="LOCAL_RANK=0")) == (
        "torchrun",
        "one node",
    )
    assert of("torchrun --numa-binding node x.py") == []
    (socket,) = of("torchrun --numa-binding socket x.py", environ="LOCAL_RANK=0")
    assert socket.unresolved is not None


def test_deepspeed_gives_equal_parts_of_its_cores() -> None:
    launch = "python3 -u -m deepspeed.launcher.launch --bind_cores_to_rank --bind_core_list=0-7 x.py"
    found = of(launch, environ="LOCAL_RANK=1 LOCAL_SIZE=2")
    assert (memory(found), cpus(found)) == (("deepspeed", "bind", "1"), ("deepspeed", "4-7"))
    (over_two_nodes,) = of(launch.replace("0-7", "2-9"), environ="LOCAL_RANK=0 LOCAL_SIZE=1")
    assert not over_two_nodes.has_memory
    memory_beside = {0: CpuSet.parse("0-3"), 1: CpuSet.parse("4-7"), 2: CpuSet(), 3: CpuSet()}
    on_memory = of(launch, environ="LOCAL_RANK=1 LOCAL_SIZE=2", here=replace(FOUR_NODES, cpus_of=memory_beside))
    assert memory(on_memory) == ("deepspeed", "preferred", "3")
    (by_itself,) = of("deepspeed --bind_cores_to_rank x.py", environ="LOCAL_RANK=0 LOCAL_SIZE=2")
    assert by_itself.unresolved is not None


def test_the_runtime_s_memory_policy_is_read_and_nothing_else_of_its_configuration() -> None:
    config = b'{"process":{"env":["TOKEN=x"]},"linux":{"memoryPolicy":{"mode":"MPOL_INTERLEAVE","nodes":"2-3"}}}'
    found = declarations(Told(runtime=units.memory_policy_in(config)), FOUR_NODES)
    assert memory(list(found)) == ("oci", "interleave", "2-3")
    assert units.memory_policy_in(b'{"linux":{}}') == {}
    assert units.memory_policy_in(b'{"linux":{"memoryPolicy":{"mode":"../etc","nodes":"x"}}}') == {}


def test_a_unit_declares_by_its_last_assignment() -> None:
    settings = units.settings_in(
        ["[Service]\nEnvironment=TOKEN=x\nNUMAPolicy=bind\nNUMAMask=0\n", "[Service]\nNUMAMask=1-2\nCPUAffinity=numa\n"]
    )
    assert settings == {"NUMAPolicy": "bind", "NUMAMask": "1-2", "CPUAffinity": "numa"}
    found = list(declarations(Told(unit=settings), FOUR_NODES))
    assert (memory(found), cpus(found)) == (("systemd", "bind", "1-2"), ("systemd", "4-11"))
    assert declarations(Told(unit={"NUMAPolicy": "default"}), FOUR_NODES) == ()


@pytest.mark.parametrize(
    ("environ", "policy", "nodes"),
    [
        ("SLURM_MEM_BIND_TYPE=map_mem: SLURM_MEM_BIND_LIST=0,1 SLURM_LOCALID=1", "bind", "1"),
        ("SLURM_MEM_BIND_TYPE=mask_mem: SLURM_MEM_BIND_LIST=0x1,0xc SLURM_LOCALID=3", "bind", "2-3"),
        ("SLURM_MEM_BIND_TYPE=rank SLURM_LOCALID=2 SLURM_MEM_BIND_PREFER=prefer", "preferred", "2"),
        ("SLURM_MEM_BIND_TYPE=rank SLURM_LOCALID=3", "bind", "3"),
        ("SLURM_MEM_BIND_TYPE=rank SLURM_LOCALID=4", "bind", "0"),
        (
            "SLURM_MEM_BIND_TYPE=local SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x00F0,0x0F00 SLURM_LOCALID=0",
            "bind",
            "1",
        ),
    ],
)
def test_slurm_binds_the_memory_of_a_task(environ: str, policy: PolicyKind, nodes: str) -> None:
    assert memory(of(environ=environ)) == ("slurm", policy, nodes)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x00F0,0x0F00 SLURM_LOCALID=1", "8-11"),
        ("SLURM_CPU_BIND_TYPE=quiet,map_cpu: SLURM_CPU_BIND_LIST=3,7 SLURM_LOCALID=5", "7"),
        ("SLURM_CPU_BIND_TYPE=mask_ldom: SLURM_CPU_BIND_LIST=0x2 SLURM_LOCALID=5", "4-7"),
    ],
)
def test_slurm_binds_the_cpus_of_a_task(environ: str, expected: str) -> None:
    assert cpus(of(environ=environ)) == ("slurm-cpus", expected)


def test_slurm_without_binding_declares_nothing() -> None:
    assert of(environ="SLURM_CPU_BIND_TYPE=none SLURM_MEM_BIND_TYPE=none SLURM_LOCALID=0") == []


@pytest.mark.parametrize(
    ("ancestor", "environ", "launcher", "expected"),
    [
        ("mpirun --bind-to core -n 4 ./work", "OMPI_COMM_WORLD_RANK=3", "open-mpi", "one node"),
        ("sh", "OMPI_COMM_WORLD_RANK=3 OMPI_MCA_hwloc_base_binding_policy=numa", "open-mpi", "one node"),
        ("prterun -n 2 --bind-to core:overload-allowed ./work", "PMIX_RANK=0", "open-mpi", "one node"),
        ("mpiexec.hydra -bind-to numa ./work", "PMI_RANK=1", "mpich", "one node"),
        ("mpirun -bind-to user:0+2,4+6 ./work", "PMI_RANK=3 MPI_LOCALRANKID=1", "mpich", "4,6"),
        ("mpirun -bind-to rr ./work", "PMI_RANK=1 MPI_LOCALRANKID=1", "mpich", "one node"),
        ("sh", "MV2_CPU_MAPPING=0-3:4-7 MV2_COMM_WORLD_LOCAL_RANK=1", "mpich", "4-7"),
        ("sh", "I_MPI_PIN_DOMAIN=numa PMI_RANK=1", "intel-mpi", "one node"),
        ("sh", "I_MPI_PIN_DOMAIN=[0xf,0xf0] MPI_LOCALRANKID=1", "intel-mpi", "4-7"),
        ("sh", "I_MPI_PIN_PROCESSOR_LIST=10,2-3 MPI_LOCALRANKID=0", "intel-mpi", "10"),
        ("sh", "I_MPI_PIN_DOMAIN=[8,4] I_MPI_PIN_INFO=0,2 MPI_LOCALRANKID=0", "intel-mpi", "0,2"),
    ],
)
def test_mpi_binds_cpus(ancestor: str, environ: str, launcher: str, expected: str) -> None:
    assert cpus(of(ancestor, environ=environ)) == (launcher, expected)


def test_mpi_without_binding_declares_nothing() -> None:
    assert of("mpirun --bind-to none ./work", environ="OMPI_COMM_WORLD_RANK=0") == []
    assert of("mpirun --bind-to core ./work") == []
    assert of(environ="I_MPI_PIN=off I_MPI_PIN_DOMAIN=numa PMI_RANK=0") == []
    assert of(environ="I_MPI_PIN=0 I_MPI_PIN_INFO=0-3 PMI_RANK=0") == []
    assert of("mpirun -bind-to core:2 ./work", environ="PMI_RANK=0") == []


def test_a_variable_that_open_mpi_did_not_follow_declares_nothing() -> None:
    variable = "OMPI_COMM_WORLD_RANK=0 OMPI_MCA_hwloc_base_binding_policy=core"
    assert of("mpirun.openmpi --bind-to none ./work", environ=variable) == []
    assert of("prterun -n 1 ./work", environ=f"{variable} OMPI_VERSION=5.0.11") == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("OMP_PLACES={0:4}:2:4", "0-7"),
        ("OMP_PLACES={0,2},{4:2:2}", "0,2,4,6"),
        ("OMP_PLACES=cores OMP_PROC_BIND=close", "one node"),
        ("GOMP_CPU_AFFINITY=0|4-7:2", "0,4,6"),
        ("KMP_AFFINITY=granularity=fine,explicit,proclist=[8-11]", "8-11"),
    ],
)
def test_openmp_places_the_main_thread(environ: str, expected: str) -> None:
    found = of(environ=environ)
    assert cpus(found) == ("openmp", expected)
    assert found[0].threads == "main"


def test_openmp_without_binding_declares_nothing() -> None:
    assert of(environ="OMP_PLACES=cores OMP_PROC_BIND=false") == []
    assert of(environ="OMP_PLACES=sockets") == []


def test_hwloc_counts_nodes_with_cpus() -> None:
    found = of("timeout 9 hwloc-bind --cpubind node:1 --membind node:os=2 --mempolicy interleave -- ./work")
    assert memory(found) == ("hwloc-bind", "interleave", "2")
    assert cpus(found) == ("hwloc-bind", "4-7")
    memory_first = replace(FOUR_NODES, cpus_of={0: CpuSet(), 1: CpuSet.parse("0-7")})
    assert memory(of("timeout 9 hwloc-bind --membind node:0 ./work", here=memory_first)) == (
        "hwloc-bind",
        "preferred",
        "1",
    )


def test_hwloc_binds_cpus_by_the_location_after_its_name() -> None:
    assert cpus(of("timeout 9 hwloc-bind node:1 -- ./work")) == ("hwloc-bind", "4-7")
    assert memory(of("timeout 9 hwloc-bind --membind node:1 core:0 -- ./work")) == ("hwloc-bind", "preferred", "1")
    (unread,) = of("timeout 9 hwloc-bind pu:3 -- ./work")
    assert unread.unresolved == "hwloc-bind: only locations such as node:0 are read"
    partly = of("timeout 9 hwloc-bind --membind node:0 --cpubind core:0 -- ./work")
    assert memory(partly) == ("hwloc-bind", "preferred", "0")
    strictly = of("timeout 9 hwloc-bind --strict --membind node:0 -- ./work")
    assert memory(strictly) == ("hwloc-bind", "bind", "0")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("-c 4-7,9", "4-7,9"), ("0xf0", "4-7"), ("f0", "4-7"), ("--cpu-list 3", "3"), ("-ac 3", "3")],
)
def test_taskset_takes_a_list_or_a_mask(arguments: str, expected: str) -> None:
    assert cpus(of(f"timeout 60 taskset {arguments} ./work -c 1")) == ("taskset", expected)


def test_likwid_binds_to_all_hardware_threads_of_its_list() -> None:
    assert cpus(of(environ="LIKWID_HWTHREADS=4,1 LIKWID_PIN=1,4 KMP_AFFINITY=disabled")) == ("likwid", "1,4")


def test_qemu_binds_the_memory_of_its_guest() -> None:
    backend = "memory-backend-ram,id=m0,size=4G,host-nodes=0,host-nodes=1,policy=bind"
    assert memory(of(own=f"/usr/bin/qemu-system-x86_64 -object {backend} -m 4G")) == ("qemu", "bind", "0-1")
    json = '{"qom-type":"memory-backend-memfd","id":"ram-node0","size":1,"host-nodes":[2,3],"policy":"preferred"}'
    assert memory(of(own=f"qemu-kvm -object {json}")) == ("qemu", "preferred", "2-3")
    assert of(own="qemu-kvm -object secret,id=s0,data=hidden") == []


def test_dpdk_declares_huge_pages_by_node_and_lcores() -> None:
    found = of(own="./app --socket-mem 0,1024 --lcores 4-7")
    assert memory(found) == ("dpdk", None, "1")
    assert cpus(found) == ("dpdk", "4-7")
    assert found[0].memory_of == "huge-pages"
    assert cpus(of(own="dpdk-testpmd -l 1,2 -- -i")) == ("dpdk", "1-2")
    assert cpus(of(own="./app --lcores 0@4,1@5")) == ("dpdk", "4-5")
    assert of(own="./app --lcores (0-3)@4") == []
    assert of(own="./app -l 1,2") == []


def test_scylladb_and_the_jvm_and_mysql_declare_in_their_own_arguments() -> None:
    assert cpus(of(own="/usr/bin/scylla --cpuset 1-3 --smp 3")) == ("scylladb", "1-3")
    assert memory(of(own="java -XX:+UseNUMA -jar x.jar")) == ("jvm", "any", "None")
    assert memory(of(own="java -XX:+UseNUMA -XX:+UseNUMAInterleaving X")) == ("jvm", "interleave", "None")
    assert of(own="java -XX:+UseNUMA X", here=replace(FOUR_NODES, nodes=NodeSet.of(2))) == []
    assert memory(of(own="mysqld --innodb-numa-interleave=ON")) == ("mysql", "interleave", "0-3")
    assert of(own="mysqld --innodb-numa-interleave=OFF") == []
    assert of("java -XX:+UseNUMA X") == []


def test_a_value_of_no_known_form_is_a_reason_and_no_declaration() -> None:
    (found,) = of(environ="SLURM_MEM_BIND_TYPE=map_mem: SLURM_MEM_BIND_LIST=9999 SLURM_LOCALID=0")
    assert found.unresolved == "its value has a form that is not known here"
    assert not found.has_memory


def test_memory_and_cpus_may_be_declared_by_two_launchers() -> None:
    found = of("timeout 9 numactl -m 1 ./work", environ="SLURM_CPU_BIND_TYPE=map_cpu: SLURM_CPU_BIND_LIST=5")
    assert (memory(found), cpus(found)) == (("numactl", "bind", "1"), ("slurm-cpus", "5"))


def test_each_row_is_named_once_and_has_a_public_document() -> None:
    names = [row.name for row in LAUNCHERS]
    assert len(names) == len(set(names))
    assert all(row.document.startswith("https://") for row in LAUNCHERS)
    assert all(row.reads for row in LAUNCHERS)


def test_ranks_are_numbered_by_their_launcher() -> None:
    assert Told(environment=environment_in(_words("RANK=9 LOCAL_RANK=1"))).rank == 9
    assert Told(environment=environment_in(_words("SLURM_LOCALID=2"))).rank == 2
    assert Told(environment=environment_in(_words("RANK=secret"))).rank is None
