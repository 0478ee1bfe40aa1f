"""The part of a report that somebody asked for. Pure."""

from __future__ import annotations

from dataclasses import replace

from numaudit.errors import InputError
from numaudit.report.values import ContainerReport, Report


def narrow(report: Report, which: str | None) -> Report:
    """The report of some containers only, or of a pod that was refused. Raises InputError when there is neither."""
    if which is None:
        return report
    found = tuple(one for one in report.containers if _matches(one, which))
    refused = tuple(one for one in report.rejections if which in (one.pod, f"{one.namespace}/{one.pod}", one.pod_uid))
    if refused and not found:
        return replace(report, containers=(), rejections=refused)
    if not found:
        raise InputError(
            f"no container matches {which!r}; `numaudit report -o wide` lists all {len(report.containers)} of them"
        )
    return replace(report, containers=found)


def worst(report: Report, most: int | None) -> Report:
    """The report with so many containers at most, the worst ones, and with the findings about them and the node."""
    if most is None or len(report.containers) <= most:
        return report
    return _of_containers(report, report.containers[:most])


def _of_containers(report: Report, containers: tuple[ContainerReport, ...]) -> Report:
    """Findings about other containers are left out; those about the node stay."""
    kept = {one.id for one in containers}
    others = {one.id for one in report.containers} - kept
    findings = tuple(one for one in report.findings if one.container_id is None or one.container_id not in others)
    return replace(report, containers=containers, findings=findings)


def _matches(container: ContainerReport, which: str) -> bool:
    path = container.path or ""
    names = {container.path, path.lstrip("/") or None, path.rpartition("/")[2] or None, container.pod_uid}
    if container.container_id and len(which) >= 12 and container.container_id.startswith(which):
        return True
    if container.pod is not None:
        pod, full = container.pod, f"{container.namespace}/{container.pod}"
        names |= {pod, full, f"{pod}/{container.container}", f"{full}/{container.container}"}
    elif container.pod_uid is not None:
        names.add(f"{container.pod_uid}/{container.container}")
    return which in names
