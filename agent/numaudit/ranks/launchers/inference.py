"""Inference servers: vLLM, SGLang, TensorRT-LLM. They bind each worker to the node of its GPU."""

from __future__ import annotations

import re

from numaudit.ranks.command_line import options
from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.launchers.numactl import PROGRAM as NUMACTL
from numaudit.ranks.launchers.numactl import read_options
from numaudit.ranks.lists import entry, union
from numaudit.topology.nodeset import CpuSet, NodeSet

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
