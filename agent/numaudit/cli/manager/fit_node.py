"""The node of `numaudit fit`: this host, a captured one, the end of a scenario, or what a kubelet's files say."""

from __future__ import annotations

from pathlib import Path

from numaudit.cli import options
from numaudit.config import yaml_document
from numaudit.config.yaml_document import ScenarioFiles
from numaudit.containermanager.pod.names import PodName
from numaudit.containermanager.versions import parse_version
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import restored_node
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.scenario.document import Document
from numaudit.scenario.files import Files
from numaudit.scenario.reading import read_scenario, read_setup, read_state_files
from numaudit.scenario.simulation import simulate
from numaudit.scenario.values import Node, PodsHere

_SCENARIOS = (".yaml", ".yml", ".json")
_MACHINE = ("machine.json", "machine.yaml")
_CONFIGURATION = "config.yaml"
_STATE = {
    "memory": ("memory_manager_state",),
    "cpu": ("cpu_manager_state",),
    "devices": ("kubelet_internal_checkpoint", "device-plugins/kubelet_internal_checkpoint"),
}
"""Manager -> name of its file below /var/lib/kubelet, or in a copy."""
_OF_A_KUBELET = (_CONFIGURATION, *(name for names in _STATE.values() for name in names))


def node_of(
    given: Path | None, root: Path | None, version: str | None, gates: dict[str, bool]
) -> tuple[Node, Host | None]:
    """The node that the options name, and the host that it was read from; None = files describe it.

    Raises InputError for options and files that do not fit, and Unavailable.
    """
    if given is not None and root is not None:
        raise InputError("--node and --root both name the node: leave out one")
    if given is None:
        host = options.host(root)
        return _of_host(host, version, gates), host
    if given.is_file() and given.suffix in _SCENARIOS:
        if version is not None or gates:
            raise InputError("a scenario describes the whole node: leave out --kubernetes-version and --feature-gates")
        return _end_of(given), None
    if any((given / name).exists() for name in (*_MACHINE, *_OF_A_KUBELET)):
        return _described(given, version, gates), None
    try:
        host = options.host(given)
    except InputError as error:
        raise InputError(
            f"{str(error).replace('--root', '--node')}; or give a scenario (.yaml or .json), or a folder with "
            f"{_MACHINE[0]} and a kubelet's {_CONFIGURATION} and state files"
        ) from None
    return _of_host(host, version, gates), host


def _open(name: str, what: str) -> list[Document]:
    return yaml_document.read_file(Path(name), what)


def _end_of(scenario: Path) -> Node:
    played = simulate(read_scenario(yaml_document.read(scenario, "the scenario"), ScenarioFiles(scenario).open))
    setup = played.steps[-1].setup if played.steps else played.scenario.setup
    names = {uid: PodName(pod.namespace, pod.name, False) for uid, pod in played.state.pods.items()}
    return Node(setup, played.state, PodsHere(names, problem="a scenario does not say what else is on the node"))


def _described(folder: Path, version: str | None, gates: dict[str, bool]) -> Node:
    """By the machine and a copy of the kubelet's files; without a state file its manager holds nothing."""
    machine = next((folder / name for name in _MACHINE if (folder / name).exists()), None)
    if machine is None:
        raise InputError(
            f"--node {folder}: has a kubelet's files, but no {_MACHINE[0]}; write it on that node: `numaudit "
            f"topology -o json > {_MACHINE[0]}`"
        )
    configuration = folder / _CONFIGURATION
    if not configuration.exists():
        raise InputError(f"--node {folder}: has no {_CONFIGURATION}; copy the kubelet's configuration file there")
    described = {"machine": str(machine), "kubelet": str(configuration), "kubernetesVersion": version}
    setup = read_setup(Document("the command line", {**described, "featureGates": gates or None}), _open)
    found = {
        manager: next((str(folder / name) for name in names if (folder / name).exists()), None)
        for manager, names in _STATE.items()
    }
    state = {manager: name for manager, name in found.items() if name is not None}
    files = read_state_files(Document("the command line", state), _open) if state else Files()
    return restored_node(setup, files, PodsHere(problem="files do not say what else is on the node"))


def _of_host(host: Host, version: str | None, gates: dict[str, bool]) -> Node:
    """This host or a captured one, whose kubelet may be asked about as one of another version or with other gates."""
    try:
        return node_on(host, AskedKubelet(None if version is None else parse_version(version), gates))
    except Unavailable as reason:
        raise Unavailable(f"{reason}; run as root, or describe a node with --node") from None
    except InputError as error:
        raise Unavailable(f"{error}; `numaudit state verify` says more") from None
