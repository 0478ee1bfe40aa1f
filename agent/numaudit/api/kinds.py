"""All kinds of documents, and the value that each shows. Whoever writes one kind needs only `document.encode`."""

from __future__ import annotations

from numaudit.api import explanation_document, simulation_document, state_document
from numaudit.api.cluster_document import ClusterReport, NodeAnswerList
from numaudit.api.doctor_document import Doctor, SelfTest
from numaudit.api.document import Capture, Config, ConfigCheck, Topology
from numaudit.api.placement_document import PlacementList
from numaudit.memorymanager.forecast import Forecast
from numaudit.pmu.calibration import Calibration
from numaudit.report.gates.gate import Assertion
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.values import Report

KINDS: dict[str, type] = {
    "Report": Report,
    "Topology": Topology,
    "Doctor": Doctor,
    "SelfTest": SelfTest,
    "Calibration": Calibration,
    "State": state_document.DecodedState,
    "StateList": state_document.DecodedStateList,
    "StateVerification": state_document.StateVerification,
    "StateVerificationList": state_document.StateVerificationList,
    "StateDifference": state_document.StateDifference,
    "RestartForecast": Forecast,
    "Headroom": MemoryManagerReport,
    "Explanation": explanation_document.Explanation,
    "ExplanationList": explanation_document.ExplanationList,
    "PlacementList": PlacementList,
    "Simulation": simulation_document.Simulation,
    "ClusterReport": ClusterReport,
    "NodeAnswerList": NodeAnswerList,
    "Config": Config,
    "ConfigCheck": ConfigCheck,
    "Capture": Capture,
    "Assertion": Assertion,
}
"""Kind -> value."""
