"""Reading a scenario: what it may say, and what is wrong with one, with file, line and path."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.plain import Document, LocatedError, read_mapping, shown
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.versions import KNOWN_GATES, LATEST, parse_version
from numaudit.errors import InputError, nearest
from numaudit.memorymanager.configuration import FIELDS, IN_FORCE, KIND, unknown_fields, unwrap
from numaudit.scenario.files import STATE, Files, read_checkpoint, starting_state
from numaudit.scenario.machine import read_devices, read_machine
from numaudit.scenario.manifests import read_manifests
from numaudit.scenario.values import Admit, Remove, Restart, Scenario, Setup, Start, Step

OpenFile = Callable[[str, str], Sequence[Document]]
"""(name of a file, what it is) -> its documents; a name is taken from the folder of the scenario. Raises InputError."""

_SCENARIO = ("apiVersion", "kind", "kubernetesVersion", "featureGates", "machine", "kubelet", "state", "steps")
_STEPS = ("admit", "start", "remove", "restart")
_RESTART = ("machine", "kubelet", "kubernetesVersion", "featureGates")


def read_scenario(document: Document, open_file: OpenFile) -> Scenario:
    """A scenario. Raises InputError: `file:line: path: reason`."""
    _refuse_manifests(document)
    fields = document.fields(_SCENARIO)
    for name, value in (("apiVersion", "numaudit/v1"), ("kind", "Scenario")):
        if fields.get(name) != value:
            raise document.part(name).error(f"must be {value}, not {shown(fields.get(name))}")
    setup = read_setup(document, open_file)
    with document.located():
        state = starting_state(setup, read_state_files(document.part("state"), open_file))
    _check_state_devices(state.devices, document.part("state"))
    reader = _Steps(setup, open_file, {pod.full_name: pod for pod in state.pods.values()})
    steps = [(step, place) for place in document.part("steps").elements() for step in reader.read(place)]
    return Scenario(setup, state, tuple(step for step, _ in steps), tuple(place for _, place in steps))


def _refuse_manifests(document: Document) -> None:
    """Raises InputError for a pod, a workload or a list of them, with the verb that takes it."""
    kind = document.part("kind").value
    if isinstance(kind, str) and kind != "Scenario" and any(document.part(name).value for name in ("spec", "items")):
        command = f"numaudit fit {shlex.quote(document.name)}"
        raise document.part("kind").error(f"it is a {kind}, not a Scenario; `{command}` answers for its pods")


def read_setup(document: Document, open_file: OpenFile, before: Setup | None = None) -> Setup:
    """`machine`, `kubelet`, `kubernetesVersion` and `featureGates`; what is missing is as `before`."""
    machine_part = _opened(document.part("machine"), open_file, "the machine")
    if machine_part.value is None and before is not None:
        machine, devices = before.machine, before.devices
    else:
        if machine_part.value is None:
            raise machine_part.error("a scenario needs a machine")
        machine = read_machine(machine_part)
        devices = read_devices(machine_part, machine)
    version = document.part("kubernetesVersion")
    named = f"{LATEST[0]}.{LATEST[1]}" if before is None else before.version
    if version.value is not None:
        if not isinstance(version.value, str):
            raise version.error(f'must be text such as "1.36", not {shown(version.value)}: put it in quotes')
        with version.located():
            parse_version(version.value)
        named = version.value
    part = _configuration(document, open_file)
    own, unknown = ({}, ()) if before is None else (before.configuration, before.notices)
    if part.value is not None:
        own, unknown = _fields(part)
    given_gates = document.part("featureGates").value is not None
    gates = own.get("featureGates", {} if given_gates or before is None else before.configuration.get("featureGates"))
    gates = {**(gates if isinstance(gates, Mapping) else {}), **_gates(document)}
    setup = Setup(machine, {**own, "featureGates": gates}, named, devices, unknown)
    try:
        with (document if part.value is None else part).located():
            _ = setup.started
    except InputError as error:
        raise LocatedError("; ".join((str(error), *unknown))) from None
    return setup


def _configuration(document: Document, open_file: OpenFile) -> Document:
    """The fields of a KubeletConfiguration: there, in a file, or in what people have of it."""
    opened = _opened(document.part("kubelet"), open_file, "the kubelet's configuration", _only_configuration)
    with opened.located():
        found = unwrap(opened.value)
    if found is not None:
        return Document(opened.name, found.fields, opened.line_of, found.path, is_file=True)
    return replace(opened, is_file=opened.part("kind").value is not None)


def _only_configuration(documents: Sequence[Document]) -> Document:
    """The kubelet's of several documents of a file, with the flags that another of them gives it, as in kubeadm's."""
    own = [one for one in documents if one.part("kind").value == KIND]
    wrapped = [(one, found) for one in documents if one not in own and (found := _wrapped(one)) is not None]
    if len(own) > 1 or len(wrapped) > 1 or not own + wrapped:
        raise documents[1].error(
            f"not YAML of one document: another begins; {len(own)} are of kind {KIND}; give the one in force: "
            f"{IN_FORCE}"
        )
    if not own:
        return wrapped[0][0]
    flags = wrapped[0][1] if wrapped else {}
    return replace(own[0], value={**read_mapping(own[0].value, ""), **flags})


def _wrapped(document: Document) -> Mapping[str, object] | None:
    """The settings that a document of another kind gives a kubelet; None = it gives none."""
    if isinstance(document.value, Mapping):
        document = replace(document, value={key: value for key, value in document.value.items() if key != "kind"})
    with document.located():
        found = unwrap(document.value)
    return None if found is None else found.fields


def _fields(part: Document) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The fields, and what is to say of those that are not known: a kubelet ignores them in a file."""
    if not part.is_file:
        return part.fields(FIELDS), ()
    with part.located():
        fields = read_mapping(part.value, "")
    strange = unknown_fields(fields).items()
    said = (part.part(name).error(f"unknown field, ignored as by a kubelet{near}") for name, near in strange)
    return fields, tuple(map(str, said))


def _gates(document: Document) -> Mapping[str, object]:
    part = document.part("featureGates")
    if part.value is None:
        return {}
    gates = part.fields(KNOWN_GATES)
    for name, is_on in gates.items():
        if not isinstance(is_on, bool):
            raise part.part(name).error(f"must be true or false, not {shown(is_on)}")
    return gates


def read_state_files(part: Document, open_file: OpenFile) -> Files:
    """`memory`, `cpu` and `devices`, inline or as names of files. Raises InputError that names the place."""
    names = part.fields(STATE) if part.value is not None else ()
    opened = {name: _opened(part.part(name), open_file, "the checkpoint") for name in names}
    return Files(**{name: read_checkpoint(name, place) for name, place in opened.items()})


def _check_state_devices(devices: DeviceState, place: Document) -> None:
    for uid, containers in devices.entries.items():
        for resources in containers.values():
            for resource, ids in resources.items():
                absent = sorted(ids - devices.known(resource).keys())
                if absent:
                    raise place.part("devices").error(
                        f"pod {uid} holds {resource} {', '.join(absent[:3])}, which the machine does not have; "
                        "describe it in machine.devices"
                    )


def _opened(
    part: Document, open_file: OpenFile, what: str, choose: Callable[[Sequence[Document]], Document] | None = None
) -> Document:
    """A part, or the file that it names: as text, or as {file: NAME}. `choose` takes one of several documents."""
    name = part.value
    if isinstance(name, Mapping) and "file" in name:
        name = part.fields(("file",))["file"]
    if not isinstance(name, str):
        return part
    try:
        found, *more = open_file(name, what)
    except InputError as error:
        raise part.error(str(error)) from None
    if more:
        if choose is None:
            raise more[0].error("not YAML of one document: another begins; give one")
        found = choose((found, *more))
    if isinstance(found.value, str) or (isinstance(found.value, Mapping) and set(found.value) == {"file"}):
        raise found.error(f"it only names another file; put {what} itself in {part.path}")
    return found


class _Steps:
    """Reads the steps, knowing the pods of those before."""

    def __init__(self, setup: Setup, open_file: OpenFile, known: dict[str, Pod]) -> None:
        self._setup, self._open_file, self._known = setup, open_file, known

    def read(self, place: Document) -> tuple[Step, ...]:
        """One step, or one for each pod of a list."""
        fields = place.fields(_STEPS)
        if len(fields) != 1:
            raise place.error(f"a step has exactly one of {', '.join(_STEPS)}; this one has {len(fields)}")
        name = next(iter(fields))
        part = place.part(name)
        if name == "admit":
            return self._admit(part)
        if name == "restart":
            return (self._restart(part),)
        given = part.fields(("pod", "container"))
        pod = self._pod(part.part("pod"))
        container = given.get("container")
        if container is None and name == "remove":
            return (Remove(pod.full_name),)
        with part.part("container").located():
            if not isinstance(container, str):
                raise InputError(f"name the container as text, not {shown(container)}")
            pod.container(container)
        kind = Start if name == "start" else Remove
        return (kind(pod.full_name, container),)

    def _admit(self, part: Document) -> tuple[Admit, ...]:
        manifest = _opened(part, self._open_file, "the pod")
        pods = [one.pod for one in read_manifests([manifest], self._setup.devices)]
        self._known.update({pod.full_name: pod for pod in pods})
        return tuple(Admit(pod) for pod in pods)

    def _restart(self, part: Document) -> Restart:
        if part.value is None:
            return Restart(self._setup)
        part.fields(_RESTART)
        self._setup = read_setup(part, self._open_file, self._setup)
        return Restart(self._setup)

    def _pod(self, place: Document) -> Pod:
        if not isinstance(place.value, str) or not place.value:
            raise place.error(f"name the pod, as NAME or NAMESPACE/NAME, not {shown(place.value)}")
        found = self._known.get(place.value) or self._known.get(f"default/{place.value}")
        if found is not None:
            return found
        of_this_name = [pod for pod in self._known.values() if place.value in (pod.name, pod.uid)]
        if len(of_this_name) == 1:
            return of_this_name[0]
        if of_this_name:
            raise place.error("several namespaces have such a pod; write it as NAMESPACE/NAME")
        names = [*self._known, *(pod.name for pod in self._known.values())]
        known = nearest(place.value, names, f"; there is {', '.join(self._known) or 'none'}")
        raise place.error(f"no earlier step admits a pod {place.value!r}{known}")
