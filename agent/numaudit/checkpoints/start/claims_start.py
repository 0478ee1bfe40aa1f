"""Obstacles to the DRA Manager's start with a given `dra_manager_state`.

Source: pkg/kubelet/cm/dra/{manager,claiminfo}.go, pkg/kubelet/cm/dra/state.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.start.findings import StateFinding, Stops
from numaudit.containermanager.versions import DRA_GATE, KubernetesVersion
from numaudit.encoding.checksum import Verification


def claim_findings(
    checkpoint: ClaimCheckpoint, verification: Verification, *, version: KubernetesVersion, reads_claims: bool
) -> Iterator[StateFinding]:
    """All findings of a file of a known format. `reads_claims`: see KubeletAtStart."""
    if verification.is_valid:
        return
    message = f"the file says {verification.stored}, its content gives {verification.computed}"
    if checkpoint.is_before_1_31:
        message = "the file has the form of Kubernetes 1.30, which newer kubelets read as corrupt"
    stops: Stops | None = None
    if checkpoint.is_before_1_31 and version < (1, 31):
        stops = "unknown"
    elif not reads_claims:
        message += f"; Kubernetes {version[0]}.{version[1]} without the gate {DRA_GATE} does not read it"
        stops = "nothing"
    yield StateFinding.of("checksum-mismatch", message, "Checksum", stops)
