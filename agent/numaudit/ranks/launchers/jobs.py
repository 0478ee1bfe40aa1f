"""Launchers of training jobs: torchrun, DeepSpeed and Ray; and inference servers, which bind each worker to the node of
its GPU: vLLM, SGLang, TensorRT-LLM.
"""

from __future__ import annotations

import re

from numaudit.ranks.command_line import options
from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.launchers.wrappers import NUMACTL, read_options
from numaudit.ranks.lists import Unresolved, entry, union
from numaudit.topology.nodeset import CpuSet, NodeSet

_BINDINGS = "node|socket|exclusive|core-complex"
_ACTOR = re.compile(
    r"ray::(?!(?:IDLE|(?:IDLE|SPILL|RESTORE|DELETE)_(?:Spill|Restore)Worker|(?:Dashboard|RuntimeEnv)Agent)$)\w+",
    re.ASCII,
)
"""Of the titles of workers, of actors and running tasks. Source: _private/ray_constants.py, worker.py."""


def _torchrun(told: Told, here: Placeable) -> Declaration | None:
    """CPUs of the node of the rank's GPU; no memory policy at all. A socket may have several nodes."""
    found = told.ancestor("torchrun")
    value = None if found is None else common_value(found[0], "--numa-binding")
    if found is None or value is None or told.local_rank is None:
        return None
    if value == "socket" and len(here.cpus_of) > 1:
        raise Unresolved("--numa-binding socket: the socket of the rank's GPU is not looked up")
    return Declaration("torchrun", "--numa-binding", "ancestor", one_node=True)


def _deepspeed(told: Told, here: Placeable) -> Declaration | None:
    """Equal parts of the list of cores; numactl -m is added only where all cores of a part are on one node.

    With as many nodes without CPUs as with some, -p and the one that belongs to that node: high bandwidth memory.
    """
    found = told.ancestor("deepspeed")
    if found is None or not any(one.option == "--bind_cores_to_rank" for one in found[0]) or told.local_rank is None:
        return None
    value, size = common_value(found[0], "--bind_core_list"), told.environment.get("LOCAL_SIZE", "")
    if value is None or not size.isdigit() or not int(size):
        raise Unresolved("--bind_cores_to_rank: DeepSpeed chooses the cores without --bind_core_list")
    cores = list(CpuSet.parse(value))
    each = len(cores) // int(size)
    cpus = CpuSet.from_ids(cores[each * told.local_rank : each * (told.local_rank + 1)])
    nodes = here.nodes_of(cpus)
    with_cpus = [node for node, own in here.cpus_of.items() if own]
    without = [node for node, own in here.cpus_of.items() if not own]
    if len(nodes) == 1 and len(without) == len(with_cpus):
        near = NodeSet.of(dict(zip(with_cpus, without, strict=True))[next(iter(nodes))])
        return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", "preferred", near, cpus)
    if len(nodes) == 1:
        return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", "bind", nodes, cpus)
    return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", cpus=cpus)


def _ray(told: Told, here: Placeable) -> Declaration | None:
    """Ray binds none of its workers, so only where a container has several nodes it is of interest that nobody did."""
    if len(here.nodes_of(here.cpus) & here.nodes) < 2 or not any(_ACTOR.fullmatch(one) for one in told.own.names):
        return None
    return Declaration("ray", "ray::", "arguments")


TRAINING = (
    Launcher(
        "torchrun",
        "PyTorch (torchrun)",
        "https://docs.pytorch.org/docs/stable/elastic/run.html",
        ("--numa-binding",),
        _torchrun,
        programs=(
            Program(
                "torchrun",
                re.compile(r"torchrun|torch\.distributed\.(?:run|launch)"),
                (Option("--numa-binding", ("--numa-binding", "--numa_binding"), form(_BINDINGS)),),
            ),
        ),
        checked="code of 2.15",
    ),
    Launcher(
        "deepspeed",
        "DeepSpeed",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/utils/numa.py",
        ("--bind_cores_to_rank", "--bind_core_list"),
        _deepspeed,
        {"LOCAL_SIZE": form("[0-9]{1,4}")},
        (
            Program(
                "deepspeed",
                re.compile(r"deepspeed|deepspeed\.launcher\.launch"),
                (
                    Option("--bind_cores_to_rank", ("--bind_cores_to_rank",)),
                    Option("--bind_core_list", ("--bind_core_list",), form(r"[0-9,\-]+", 2048)),
                ),
            ),
        ),
        checked="code of 0.19",
    ),
)
RAY = Launcher(
    "ray",
    "Ray",
    "https://docs.ray.io/en/latest/ray-core/actors.html",
    ("ray::",),
    _ray,
    checked="code of 2.60",
)


_VLLM = "_VLLM_INTERNAL_NUMACTL_ARGS"
_VLLM_CPU = "VLLM_CPU_OMP_THREADS_BIND"
_SGLANG_V2 = "SGLANG_NUMA_BIND_V2"
_TLLM_AFFINITY, _TLLM_BIND = "TLLM_NUMA_AWARE_WORKER_AFFINITY", "TLLM_NUMA_BIND"
_NUMBER = r"[0-9]{1,4}"


def _vllm(told: Told, here: Placeable) -> Declaration | None:
    """The value is exactly what numactl got; after a refusal it is what vLLM fell back to."""
    value = told.environment.get(_VLLM)
    if value is None:
        return None
    return read_options(options(NUMACTL, value.split()), Declaration("vllm", _VLLM, "environment"), here)


def _vllm_cpu(told: Told, here: Placeable) -> Declaration | None:
    value = told.environment.get(_VLLM_CPU)
    if value is None or value in ("auto", "nobind", "all") or not told.runs("openmp", _VLLM_CPU):
        return None
    cpus = CpuSet.parse(entry(value.split("|"), told.local_rank))
    return Declaration("vllm-cpu", _VLLM_CPU, "environment", cpus=cpus, threads="main")


def _sglang(told: Told, here: Placeable) -> Declaration | None:
    """One node for each GPU. The worker shows no rank in its environment, so several nodes stay alternatives.

    Of its processes only schedulers are bound, which it titles so: under numactl, with a policy that it relaxes where
    that is refused, or, where version 2 is off, by themselves to a preferred node. Source: utils/numa_utils.py.
    """
    if not any(one.startswith("sglang::scheduler") for one in told.own.names):
        return None
    version = told.environment.get(_SGLANG_V2, "").lower()
    policy: PolicyKind = "preferred" if version in ("0", "false", "no", "n") else "bound"
    found = told.arguments("sglang")
    value = None if found is None else common_value(found[0], "--numa-node")
    if found is None or value is None:
        if version not in ("1", "true", "yes", "y"):
            return None
        doubt = "without --numa-node SGLang binds it only where it finds the node of its GPU"
        return Declaration("sglang", _SGLANG_V2, "environment", policy, one_node=True, doubt=doubt)
    nodes = value.split()
    if told.local_rank is None and len(set(nodes)) > 1:
        every = union(NodeSet, nodes)
        return Declaration("sglang", "--numa-node", found[1], policy, every, here.cpus_on(every), one_node=True)
    node = NodeSet.parse(entry(nodes, told.local_rank))
    return Declaration("sglang", "--numa-node", found[1], policy, node, here.cpus_on(node))


def _tensorrt_llm(told: Told, here: Placeable) -> Declaration | None:
    """The node is that of the worker's GPU."""
    if told.environment.get(_TLLM_BIND) == "1":
        return Declaration("tensorrt-llm", _TLLM_BIND, "environment", "bind", one_node=True)
    if told.environment.get(_TLLM_AFFINITY) == "1":
        return Declaration("tensorrt-llm", _TLLM_AFFINITY, "environment", one_node=True)
    return None


ROWS = (
    Launcher(
        "vllm",
        "vLLM (--numa-bind)",
        "https://docs.vllm.ai/en/latest/configuration/optimization/",
        (_VLLM,),
        _vllm,
        {_VLLM: form(r"[0-9A-Za-z,\-!+:= ]*", 2048)},
        checked="code of 0.33",
    ),
    Launcher(
        "vllm-cpu",
        "vLLM on CPUs",
        "https://docs.vllm.ai/en/latest/getting_started/installation/cpu/",
        (_VLLM_CPU,),
        _vllm_cpu,
        {_VLLM_CPU: form(r"auto|nobind|all|[0-9,\-|]+", 2048)},
        follows_runtime=True,
        checked="code of 0.33",
    ),
    Launcher(
        "sglang",
        "SGLang (--numa-node)",
        "https://docs.sglang.io/advanced_features/server_arguments.html",
        ("--numa-node", _SGLANG_V2),
        _sglang,
        {_SGLANG_V2: form("[A-Za-z01]{1,5}")},
        (
            Program(
                "sglang",
                re.compile(r"sglang(?:\.[a-z_.]+)?"),
                (Option("--numa-node", ("--numa-node",), form(rf"{_NUMBER}( {_NUMBER})*"), many=True),),
            ),
        ),
        checked="code of 0.5",
    ),
    Launcher(
        "tensorrt-llm",
        "TensorRT-LLM",
        "https://nvidia.github.io/TensorRT-LLM/",
        (_TLLM_AFFINITY, _TLLM_BIND),
        _tensorrt_llm,
        {_TLLM_AFFINITY: form("[01]"), _TLLM_BIND: form("[01]")},
    ),
)
