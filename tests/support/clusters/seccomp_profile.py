"""A default seccomp profile in Moby's format as the OCI configuration for one set of capabilities. Pure.

Source: moby profiles/seccomp/seccomp_linux.go (setupSeccomp). A rule without `includes` is for everybody; of those with
some, all named capabilities (architectures) or the least kernel must fit, and none of `excludes`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Json = dict[str, Any]

_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
_LIBSECCOMP_NAMES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}


def seccomp_for(profile: Mapping[str, Any], capabilities: Collection[str], machine: str, kernel: str) -> Json:
    """`capabilities` with CAP_ in front; `machine` and `kernel` as `uname -m` and `uname -r` say them."""
    of_machine = _LIBSECCOMP_NAMES[machine]
    relatives = [one["subArchitectures"] for one in profile["archMap"] if one["architecture"] == of_machine]

    def applies(rule: Mapping[str, Any]) -> bool:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        unknown = (includes.keys() | excludes.keys()) - {"caps", "arches", "minKernel"}
        assert not unknown, f"a seccomp rule has conditions that are not known here: {unknown}"
        if "arches" in includes and _GO_NAMES[machine] not in includes["arches"]:
            return False
        if "minKernel" in includes and _version(kernel) < _version(includes["minKernel"]):
            return False
        if not set(includes.get("caps", ())) <= set(capabilities):
            return False
        return not set(excludes.get("caps", ())) & set(capabilities) and (
            _GO_NAMES[machine] not in excludes.get("arches", ())
        )

    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": [of_machine, *(name for names in relatives for name in names)],
        "syscalls": [_rule(rule) for rule in profile["syscalls"] if applies(rule)],
    }


def _rule(rule: Mapping[str, Any]) -> Json:
    kept = {key: rule[key] for key in ("names", "action", "errnoRet") if rule.get(key) is not None}
    return {**kept, "args": rule["args"]} if rule.get("args") else kept


def _version(release: str) -> tuple[int, int]:
    major, minor = release.partition("-")[0].split(".")[:2]
    return int(major), int(minor)
