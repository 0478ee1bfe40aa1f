"""NodeResourceTopology objects at the API server: read one, and apply fields to one under a field manager's name.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import httpx2
import lightkube
import msgspec
from lightkube.core.exceptions import ConfigError
from lightkube.generic_resource import create_global_resource
from msgspec import Struct, field

from numaudit.apiserver.credentials import Access
from numaudit.apiserver.failures import ApiFailure, Reason
from numaudit.apiserver.transport import BoundedTransport
from numaudit.errors import InputError

KIND = "NodeResourceTopology"
API_VERSION = "topology.node.k8s.io/v1alpha2"
RESOURCE = "noderesourcetopologies"
_Resource = create_global_resource("topology.node.k8s.io", "v1alpha2", KIND, RESOURCE)
WHOLE = ("zones", "attributes", "topologyPolicies")
"""Fields that whoever describes the node owns."""


class _Managed(msgspec.Struct, frozen=True):
    manager: str = ""
    fields: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    annotations: dict[str, str] | None = None
    managed_fields: list[_Managed] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata


class Observed(Struct, frozen=True):
    """An object as the API server has it."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of all writers."""
    whole: Mapping[str, object] = field(default_factory=dict)
    """Those of WHOLE that it has."""
    owners: frozenset[str] = frozenset()
    """Field managers of these."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Raises ApiFailure for what is no such object."""
        try:
            metadata = msgspec.convert(found, _Object).metadata
        except msgspec.ValidationError as error:
            raise ApiFailure(Reason.BROKEN, f"the API server's {KIND} cannot be understood: {error}") from None
        owners = {
            one.manager
            for one in metadata.managed_fields or ()
            if one.fields is not None and any(f"f:{name}" in one.fields for name in WHOLE)
        }
        whole = {name: found[name] for name in WHOLE if name in found}
        return cls(metadata.annotations or {}, whole, frozenset(owners))


class ApiServer:
    """A client for one round of requests. Each raises ApiFailure."""

    def __init__(self, access: Access, seconds: float) -> None:
        """`seconds`: for each request. Raises InputError for what lightkube cannot use of a kubeconfig."""
        self.where = access.where
        self.transport = BoundedTransport(access.tls, access.server_name, seconds)
        try:
            self._client = lightkube.Client(access.config, transport=self.transport, trust_env=False)
        except (ConfigError, ValueError, httpx2.InvalidURL) as error:
            raise InputError(f"{access.where}: {error}") from None

    def get(self, name: str) -> Observed | None:
        """None = the cluster has no such object."""
        try:
            return Observed.of(self._client.get(_Resource, name))
        except ApiFailure as failure:
            if failure.reason is Reason.NO_OBJECT:
                return None
            raise

    def apply(self, name: str, fields: Mapping[str, object], manager: str, *, force: bool) -> Observed:
        """Server-side apply: these fields become the manager's, and those that it had before and are not among them go.

        `force`: fields of others become its own; else a field with another value that another manager owns is refused.
        """
        body = _Resource.from_dict({**fields, "apiVersion": API_VERSION, "kind": KIND})
        return Observed.of(self._client.patch(
            _Resource, name, body, patch_type=lightkube.types.PatchType.APPLY, field_manager=manager, force=force,
        ))  # fmt: skip

    def cut(self) -> None:
        """End what is under way, from any thread."""
        self.transport.cut()

    def close(self) -> None:
        self._client.close()
