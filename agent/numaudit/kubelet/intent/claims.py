"""Promises of resource claims (DRA): claims, prepared devices and CDI specifications joined for each container. Pure.

The pod says which claims a container has, `dra_manager_state` which devices were prepared for a claim, and
the CDI specification of these what the driver promised. PodResources stands in for the first two, but does not apply
the request that a container names, and repeats CDI names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from numaudit.checkpoints.formats.claims import Claim, ClaimDevice
from numaudit.errors import ParseError
from numaudit.intent.node import ClaimPromise, ContainerIntent
from numaudit.intent.pods import ClaimReference, PodContainer
from numaudit.kubelet.intent.drivers import places, promised, promises_devices_only
from numaudit.kubelet.intent.promises import ContainerKey
from numaudit.kubelet.parsers.pods import Pods
from numaudit.kubelet.sources.cdi_files import CdiSpecs
from numaudit.kubelet.sources.podresources import DynamicResource

_ClaimName = tuple[str, str]
"""Namespace and name."""
_NOT_PREPARED = "it is not prepared for this pod: neither dra_manager_state nor PodResources has its devices"
_NOT_READ = "no dra_manager_state can be read, and PodResources has no devices of it"


def with_claims(
    containers: Sequence[ContainerIntent],
    *,
    pods: Pods | None,
    claims: Sequence[Claim] | None,
    given: Mapping[ContainerKey, Sequence[DynamicResource]],
    specs: CdiSpecs,
) -> tuple[ContainerIntent, ...]:
    """The containers with what their claims promise. `given`: the claims of each by PodResources; `claims` None = the
    kubelet's file was not read, or has none."""
    by_name = {(one.namespace, one.name): one for one in claims or ()}
    missing = _NOT_PREPARED if claims is not None else _NOT_READ
    parts = {(pod.uid, one.name): one for pod in (pods or {}).values() for one in pod.containers}
    found: list[ContainerIntent] = []
    for one in containers:
        key = (one.pod_uid, one.name)
        of_claims = tuple(_of_container(one, parts.get(key), by_name, given.get(key, ()), specs, missing))
        found.append(_joined(one, of_claims) if of_claims else one)
    return tuple(found)


def _joined(one: ContainerIntent, claims: tuple[ClaimPromise, ...]) -> ContainerIntent:
    """Both kinds of promise count: bytes add up, nodes and CPUs are united."""
    own = one.promise
    whole = replace(one, by_managers=own, claims=claims)
    blocks, cpus = whole.claimed_memory, whole.claimed_cpus
    both = replace(
        own,
        memory=(*(own.memory or ()), *blocks) if blocks else own.memory,
        cpus=(own.cpus or cpus) | cpus if cpus else own.cpus,
    )
    return replace(whole, promise=both)


def _of_container(
    one: ContainerIntent,
    part: PodContainer | None,
    by_name: Mapping[_ClaimName, Claim],
    given: Sequence[DynamicResource],
    specs: CdiSpecs,
    missing: str,
) -> Iterator[ClaimPromise]:
    """By the pod's spec; where that is not known, by PodResources."""
    references = () if part is None else part.claims
    if part is None or one.namespace is None:
        names = dict.fromkeys((resource.namespace, resource.claim) for resource in given)
        references = tuple([ClaimReference(claim) for _, claim in names])
    for reference, requests in _by_claim(references).items():
        namespace = one.namespace or next((each.namespace for each in given if each.claim == reference), "")
        claim = by_name.get((namespace, reference))
        if claim is not None and one.pod_uid in (claim.pod_uids or ()):
            yield from _of_prepared(claim, requests, specs)
            continue
        resources = [each for each in given if (each.namespace, each.claim) == (namespace, reference)]
        yield from _of_resources(namespace, reference, resources, specs)
        if not resources:
            yield ClaimPromise(namespace, reference, None, None, places=True, problem=missing)


def _by_claim(references: Iterable[ClaimReference]) -> dict[str, frozenset[str] | None]:
    """Claim -> the requests that the container names; None = all of them."""
    found: dict[str, frozenset[str] | None] = {}
    for one in references:
        before = found.get(one.claim, frozenset())
        found[one.claim] = None if one.request is None or before is None else before | {one.request}
    return found


def _of_prepared(claim: Claim, requests: frozenset[str] | None, specs: CdiSpecs) -> Iterator[ClaimPromise]:
    if not claim.drivers:
        yield ClaimPromise(
            claim.namespace, claim.name, claim.uid, None, places=True, problem="no driver has prepared it"
        )
    for driver, devices in sorted((claim.drivers or {}).items()):
        chosen = [one for one in devices or () if _answers(one, requests)]
        if devices and not chosen:
            continue  # the driver answers another request than this container's
        names = tuple(dict.fromkeys(f"{one.pool}/{one.name}" for one in chosen))
        begun = ClaimPromise(claim.namespace, claim.name, claim.uid, driver, names, places=places(driver))
        if chosen:
            ids = dict.fromkeys(id_ for one in chosen for id_ in one.cdi_ids or ())
            yield _read(begun, ids, specs)
        else:
            yield replace(begun, problem=f"{driver} has not prepared it, or not any more")


def _answers(device: ClaimDevice, requests: frozenset[str] | None) -> bool:
    """A subrequest is named `request/subrequest`. A device without names answers any."""
    if requests is None or device.requests is None:
        return True
    return any(one in requests or one.partition("/")[0] in requests for one in device.requests)


def _of_resources(
    namespace: str, name: str, resources: Sequence[DynamicResource], specs: CdiSpecs
) -> Iterator[ClaimPromise]:
    drivers: dict[str, list[DynamicResource]] = {}
    for one in resources:
        drivers.setdefault(one.driver, []).append(one)
    for driver, listed in sorted(drivers.items()):
        ids = dict.fromkeys(id_ for one in listed for id_ in one.cdi_ids)
        devices = tuple(dict.fromkeys(f"{one.pool}/{one.device}" for one in listed))
        begun = ClaimPromise(namespace, name, _uid_of(ids), driver, devices, places=places(driver))
        yield _read(begun, ids, specs)


def _uid_of(ids: Iterable[str]) -> str | None:
    """PodResources has no UID of the claim. Drivers name the CDI device `claim-UID`."""
    uids = {one.partition("=claim-")[2] for one in ids if "=claim-" in one}
    return uids.pop() if len(uids) == 1 else None


def _read(claim: ClaimPromise, ids: Iterable[str], specs: CdiSpecs) -> ClaimPromise:
    devices: list[tuple[str, tuple[str, ...]]] = []
    driver = claim.driver or ""
    for id_ in ids:
        defined_in = specs.conflicts.get(id_)
        if defined_in is not None:
            return replace(claim, problem=f"{id_} is defined in {' and in '.join(defined_in)}")
        device = specs.devices.get(id_)
        if device is None and promises_devices_only(driver):
            continue
        if device is None:
            return replace(claim, problem=f"no CDI file defines {id_}")
        devices.append((id_, device.env))
    try:
        found = promised(driver, claim.uid or "", devices)
    except ParseError as error:
        return replace(claim, problem=str(error))
    return replace(claim, cpus=found.cpus, memory=found.memory)
