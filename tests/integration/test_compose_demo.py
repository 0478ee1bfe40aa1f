"""The demo of deploy/compose without containers: its agents, Prometheus and Alertmanager, and what Grafana would load.

Grafana is not run: its provisioning files are compared with the keys that its documentation gives.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from databases import Database, alertmanager_program, free_port, server, when_ready
from processes.agent_process import Agent, eventually, running_agent
from required import tool

FOLDER = Path(__file__).resolve().parents[2] / "deploy/compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CAPTURED = ("misaligned-node", "cluster-node")
PORT = ":9746"
SINCE_2022 = {"name", "cgroup"}
"""Keys of the specification that are newer than the schema here."""


def _mounts(service: str) -> dict[str, Path]:
    """Path in the container -> path here, of everything that is not a named volume."""
    found = {}
    for mount in SERVICES[service].get("volumes", ()):
        here, inside = mount.removesuffix(":ro").split(":")
        if here not in COMPOSE["volumes"]:
            found[inside] = (FOLDER / here).resolve()
    return found


def test_the_file_follows_the_compose_specification() -> None:
    schema = tool("docker-compose").parents[2] / "usr/lib/python3/dist-packages/compose/config/compose_spec.json"
    older = {key: value for key, value in COMPOSE.items() if key not in SINCE_2022}
    older["services"] = {
        name: {key: value for key, value in service.items() if key not in SINCE_2022}
        for name, service in SERVICES.items()
    }
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(older)


@pytest.mark.parametrize("service", SERVICES)
def test_everything_that_is_mounted_is_there_and_read_only(service: str) -> None:
    assert all(path.exists() for path in _mounts(service).values())
    writable = [mount for mount in SERVICES[service].get("volumes", ()) if not mount.endswith(":ro")]
    assert writable == (["series:/prometheus"] if service == "prometheus" else [])


@pytest.mark.parametrize("service", SERVICES)
def test_only_this_machine_reaches_a_port_and_only_the_hosts_own_agent_has_rights(service: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", ()))
    assert SERVICES[service].get("privileged", False) == (SERVICES[service].get("profiles") == ["host"])


def test_the_agents_are_scraped_and_their_alerts_reach_the_alertmanager(tmp_path: Path) -> None:
    with _demo(tmp_path) as (agents, prometheus, alertmanager):
        for name, agent in agents.items():
            assert agent.samples()["numaudit_build_info"], name
        assert eventually(lambda: _up(prometheus) == dict.fromkeys(CAPTURED, 1.0))
        assert eventually(lambda: any("Container" in name for name in _firing(prometheus)))
        assert eventually(lambda: alertmanager.get("/api/v2/alerts") != [])
        assert prometheus.get("/api/v1/status/flags")["data"]["config.file"].endswith("prometheus.yaml")


@contextmanager
def _demo(folder: Path) -> Iterator[tuple[dict[str, Agent], Database, Database]]:
    """The services as processes: paths and names of the containers' network become those of this host."""
    with ExitStack() as stack:
        agents = {}
        for name in CAPTURED:
            options = [str(_mounts(name).get(word, word)) for word in SERVICES[name]["command"][1:]]
            at = options.index("--listen")
            agents[name] = stack.enter_context(running_agent(*options[:at], *options[at + 2 :], log=folder / name))
        ports = {"prometheus": free_port(), "alertmanager": free_port()}
        addresses = {f"{name}{PORT}": f"127.0.0.1:{agent.port}" for name, agent in agents.items()}
        addresses["alertmanager:9093"] = f"127.0.0.1:{ports['alertmanager']}"
        config = _localised((FOLDER / "prometheus.yaml").read_text(), addresses)
        (folder / "prometheus.yaml").write_text(config.replace("interval: 15s", "interval: 1s"))
        rules = _mounts("prometheus")["/etc/prometheus/numaudit.rules.yaml"]
        (folder / rules.name).write_text(_hurried(rules.read_text()))
        promtool = tool("prometheus").with_name("promtool")
        subprocess.run([promtool, "check", "config", folder / "prometheus.yaml"], check=True, capture_output=True)
        storage = {
            "/prometheus": str(folder / "data"),
            "/etc/prometheus": str(folder),
            "/etc/alertmanager": str(FOLDER),
        }
        for name, port in ports.items():
            command = [_localised(word, storage) for word in SERVICES[name]["command"]]
            command += [f"--web.listen-address=127.0.0.1:{port}"]
            program = [str(tool(name))]
            if name == "alertmanager":
                program = alertmanager_program()
                command += [f"--storage.path={folder}/alerts", "--cluster.listen-address="]
            stack.enter_context(server([*program, *command], folder / f"{name}.log"))
        databases = [when_ready(Database(f"http://127.0.0.1:{port}"), "/-/ready") for port in ports.values()]
        yield agents, databases[0], databases[1]


def _localised(text: str, replaced: dict[str, str]) -> str:
    """The text with other paths and addresses. A path stands behind an equals sign and ends there, or at a slash."""
    known = "|".join(re.escape(one) for one in sorted(replaced, key=len, reverse=True))
    return re.sub(rf"(?<![\w/])(?:{known})(?![\w.])", lambda found: replaced[found[0]], text)


def _hurried(rules: str) -> str:
    """Without the minutes that an alert waits."""
    document = yaml.safe_load(rules)
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        rule.pop("for", None)
    return yaml.safe_dump(document)


def _up(database: Database) -> dict[str, float]:
    return {dict(labels)["nodename"]: value for labels, value in database.query('up{job="numaudit"}').items()}


def _firing(database: Database) -> set[str]:
    """Alerts of the node with the misaligned containers."""
    found = database.query('ALERTS{alertstate="firing", nodename="misaligned-node"}')
    return {dict(labels)["alertname"] for labels in found}


def test_grafana_finds_its_data_source_and_all_dashboards() -> None:
    """https://grafana.com/docs/grafana/latest/administration/provisioning has the keys."""
    mounts = _mounts("grafana")
    source = yaml.safe_load(mounts["/etc/grafana/provisioning/datasources/numaudit.yaml"].read_text())
    assert source["apiVersion"] == 1
    (database,) = source["datasources"]
    assert database.keys() <= {"name", "uid", "type", "access", "url", "isDefault", "editable", "jsonData", "orgId"}
    assert database["url"] == "http://prometheus:9090"
    assert database["type"] == "prometheus"
    provisioned = yaml.safe_load(mounts["/etc/grafana/provisioning/dashboards/numaudit.yaml"].read_text())
    assert provisioned["apiVersion"] == 1
    (provider,) = provisioned["providers"]
    known = {"name", "type", "folder", "disableDeletion", "allowUiUpdates", "options", "orgId", "updateIntervalSeconds"}
    assert provider.keys() <= known
    found = [json.loads(path.read_text()) for path in mounts[provider["options"]["path"]].glob("*.json")]
    assert len(found) == len({one["uid"] for one in found}) == 4
    for dashboard in found:
        assert "id" not in dashboard
        # the choice of a data source takes the default one, which is ours
        (choice,) = [one for one in dashboard["templating"]["list"] if one["type"] == "datasource"]
        assert choice["query"] == "prometheus"
