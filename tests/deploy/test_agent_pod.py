"""What the manifests promise of the agent's pod, and that it fits the agent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.api_topologies import RESOURCE
from clusters.manifests import (
    COMPONENTS,
    DEPLOY,
    EXAMPLES,
    Manifest,
    build,
    build_folder,
    container,
    daemonset,
    of_kind,
    pod,
)
from numaudit import __version__
from numaudit.cli.config import SettingsFlags
from numaudit.daemon.web import pages
from numaudit.daemon.web.rules import read_rules
from numaudit.kubelet.sources import client
from processes.certificates import Authority

Environment = pytest.MonkeyPatch
NO_ESCALATION = {
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsUser": 0,
    "runAsGroup": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CAPABILITIES = {
    "passive": {"drop": ["ALL"]},
    "pages": {"drop": ["ALL"], "add": ["BPF", "PERFMON", "SYS_PTRACE"]},
}
"""What differs from the base's."""
BUILDS = [(), *((name,) for name in COMPONENTS)]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
each_build = pytest.mark.parametrize("names", BUILDS, ids="-".join)
each_example = pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)


@each_build
def test_an_agent_has_the_rights_of_its_profile_and_no_others(names: tuple[str, ...]) -> None:
    context = container(build(*names))["securityContext"]
    if names == ("privileged",):
        assert context == {
            "privileged": True,
            "allowPrivilegeEscalation": True,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,
            "runAsGroup": 0,
        }
        return
    assert context.pop("seLinuxOptions", {"type": "spc_t"}) == {"type": "spc_t"}
    capabilities = context.pop("capabilities")
    assert capabilities == CAPABILITIES.get("-".join(names), {"drop": ["ALL"], "add": ["BPF", "PERFMON"]})
    assert context == NO_ESCALATION


@each_build
def test_of_the_hosts_namespaces_an_agent_sees_that_of_processes_alone(names: tuple[str, ...]) -> None:
    spec = pod(build(*names))
    assert [key for key in spec if key.startswith("host")] == ["hostPID"]
    assert "initContainers" not in spec
    assert spec["automountServiceAccountToken"] is False


@each_build
def test_no_folder_of_the_host_is_made_or_written(names: tuple[str, ...]) -> None:
    spec = pod(build(*names))
    of_host = {one["name"]: one["hostPath"] for one in spec["volumes"] if "hostPath" in one}
    assert {one["type"] for one in of_host.values()} <= {"Directory", "File"}
    mounts = spec["containers"][0]["volumeMounts"]
    assert all(one["readOnly"] for one in mounts)
    for mount in mounts:
        if mount["name"] in of_host:
            assert mount["mountPath"] == of_host[mount["name"]]["path"]  # the agent knows them by the host's names
            assert "mountPropagation" not in mount


@each_build
def test_what_other_pods_have_mounted_is_hidden(names: tuple[str, ...]) -> None:
    spec = pod(build(*names))
    empty = {one["name"] for one in spec["volumes"] if "emptyDir" in one}
    hidden = {one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if one["name"] in empty}
    keys = {"/var/lib/kubelet/pki"} if "hide-keys" in names else set()
    assert hidden == {"/var/lib/kubelet/pods", "/var/lib/kubelet/plugins"} | keys


def test_the_base_mounts_four_folders_of_the_host() -> None:
    paths = [one["hostPath"]["path"] for one in pod(build())["volumes"] if "hostPath" in one]
    assert paths == ["/sys/fs/cgroup", "/sys/kernel/tracing", "/var/log/pods", "/var/lib/kubelet"]


@each_build
def test_an_image_is_that_of_this_version(names: tuple[str, ...]) -> None:
    assert container(build(*names))["image"] == f"numaudit:{__version__}"


@each_example
def test_an_example_takes_this_version_from_a_registry(folder: Path) -> None:
    assert container(build_folder(folder))["image"] == f"registry.example.net/numaudit:{__version__}"


def _answered(path: str) -> bool:
    """Without a password; such a page renders no metrics."""
    return pages._ROUTES[path].is_public


@each_build
def test_probes_ask_pages_that_need_no_password_and_render_no_metrics(names: tuple[str, ...]) -> None:
    agent = container(build(*names))
    assert not _answered("/metrics")
    for probe in PROBES:
        request = agent[probe]["httpGet"]
        assert _answered(request["path"])
        assert request["port"] == agent["ports"][0]["name"]
        assert request.get("scheme", "HTTP") == ("HTTPS" if "tls" in names else "HTTP")
    assert agent["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert agent["readinessProbe"]["httpGet"]["path"] == "/-/ready"


def test_an_agent_has_minutes_for_its_start_on_a_busy_node() -> None:
    probe = container(build())["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 180


def _settings(manifests: tuple[Manifest, ...], folder: Path, monkeypatch: Environment) -> list[str]:
    """What is wrong with the settings of an agent that runs in this pod, with its files in a folder."""
    agent = container(manifests)
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(manifests, "ConfigMap")}
    given = {key: text for source in agent.get("envFrom", ()) for key, text in _map_of(source, maps).items()}
    for one in agent["env"]:
        given[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: given[name[1]], one.get("value", "192.0.2.1"))
    for key, text in given.items():
        monkeypatch.setenv(key, text.replace("/etc/numaudit-web", str(folder)))
    (volume,) = [one for one in pod(manifests)["volumes"] if one["name"] == "settings"]
    for name, text in maps[volume["configMap"]["name"]].items():
        (folder / name).write_text(text)
    (mount,) = [one for one in agent["volumeMounts"] if one["name"] == "settings"]
    assert agent["args"] == ["agent"]
    named = folder / Path(given["NUMAUDIT_CONFIG"]).relative_to(mount["mountPath"])
    monkeypatch.setenv("NUMAUDIT_CONFIG", str(named))
    return list(SettingsFlags().check())


def _map_of(source: dict[str, Any], maps: dict[str, dict[str, str]]) -> dict[str, str]:
    return maps[source["configMapRef"]["name"]] if "configMapRef" in source else {}


def _web_config(folder: Path) -> Path:
    """The page's example of a web-config file, with the certificate that it names."""
    page = (DEPLOY.parent / "docs/install.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n# web.yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    path = folder / "web.yaml"
    path.write_text(text)
    certificate, key = Authority(folder).issue("numaudit", folder)
    certificate.rename(folder / "tls.crt")
    key.rename(folder / "tls.key")
    return path


@pytest.mark.parametrize("source", [*BUILDS, *EXAMPLES], ids=lambda one: getattr(one, "name", "-".join))
def test_the_settings_of_every_build_are_right(
    source: tuple[str, ...] | Path, tmp_path: Path, monkeypatch: Environment
) -> None:
    _web_config(tmp_path)
    manifests = build_folder(source) if isinstance(source, Path) else build(*source)
    assert _settings(manifests, tmp_path, monkeypatch) == []


def test_a_wrong_setting_of_a_build_is_found(tmp_path: Path, monkeypatch: Environment) -> None:
    monkeypatch.setenv("NUMAUDIT_INTERVAL", "never")
    assert any("NUMAUDIT_INTERVAL" in one for one in _settings(build(), tmp_path, monkeypatch))


def test_the_port_is_that_of_the_setting_everywhere() -> None:
    manifests = build("monitoring")
    (settings,) = (one for one in of_kind(manifests, "ConfigMap") if "agent.yaml" in one["data"])
    port = int(yaml.safe_load(settings["data"]["agent.yaml"])["listen"].rpartition(":")[2])
    (declared,) = container(manifests)["ports"]
    assert declared["containerPort"] == port
    (policy,) = of_kind(manifests, "NetworkPolicy")
    assert policy["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port}]
    (monitor,) = of_kind(manifests, "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == declared["name"]


@each_build
def test_what_selects_pods_selects_the_agents(names: tuple[str, ...]) -> None:
    manifests = build(*names)
    labels = daemonset(manifests)["spec"]["template"]["metadata"]["labels"].items()
    selectors = [daemonset(manifests)["spec"]["selector"]]
    selectors += [one["spec"]["podSelector"] for one in of_kind(manifests, "NetworkPolicy")]
    selectors += [one["spec"]["selector"] for one in of_kind(manifests, "PodMonitor")]
    for selector in selectors:
        assert selector["matchLabels"]
        assert selector["matchLabels"].items() <= labels


def test_an_agent_opens_no_connection_unless_a_component_needs_one() -> None:
    (policy,) = of_kind(build(), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy["spec"]
    ways = {
        name: [port["port"] for one in of_kind(build(name), "NetworkPolicy") for way in one["spec"].get("egress", ())
               for port in way["ports"]]
        for name in COMPONENTS
    }  # fmt: skip
    needed = {"api-server": [10250], "nrt": [443, 6443], "otlp": [4318, 53, 53]}
    assert {name: ports for name, ports in ways.items() if ports} == needed


_WITH_TOKEN = ("api-server", "nrt")


@pytest.mark.parametrize("names", [(), *((name,) for name in COMPONENTS if name not in _WITH_TOKEN)], ids="-".join)
def test_a_service_account_has_neither_rights_nor_a_token(names: tuple[str, ...]) -> None:
    manifests = build(*names)
    assert not {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} & {one["kind"] for one in manifests}
    assert not any("projected" in one for one in pod(manifests)["volumes"])


def test_the_kubelet_is_asked_with_the_rights_that_the_agent_names() -> None:
    manifests = build("api-server")
    (role,) = of_kind(manifests, "ClusterRole")
    (rule,) = role["rules"]
    assert rule["verbs"] == ["get"]
    assert set(rule["resources"]) == set(client._RIGHTS.values())
    (binding,) = of_kind(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": pod(manifests)["serviceAccountName"], "namespace": "numaudit"}
    ]


@pytest.mark.parametrize(
    ("names", "verbs"), [(("nrt",), ["get", "patch"]), (("nrt", "nrt-own"), ["get", "patch", "create"])]
)
def test_what_publishes_has_the_least_rights(names: tuple[str, ...], verbs: list[str]) -> None:
    manifests = build(*names)
    (role,) = of_kind(manifests, "ClusterRole")
    assert role["rules"] == [{"apiGroups": ["topology.node.k8s.io"], "resources": [RESOURCE], "verbs": verbs}]
    (binding,) = of_kind(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    page = (DEPLOY.parent / "docs/security.md").read_text(encoding="utf-8").replace("\n", " ")
    assert "`get`, `patch` and, with `nrt-own`, `create` on noderesourcetopologies" in page
    published = "own" if "nrt-own" in names else "annotations"
    (setting,) = [one for one in container(manifests)["env"] if one["name"] == "NUMAUDIT_NRT_PUBLISH"]
    assert setting["value"] == published


def test_both_components_with_a_token_share_one() -> None:
    manifests = build("api-server", "nrt")
    assert len(of_kind(manifests, "ClusterRole")) == 2
    assert [one["name"] for one in pod(manifests)["volumes"]].count("token") == 1
    assert [one["name"] for one in container(manifests)["volumeMounts"]].count("token") == 1
    (volume,) = [one for one in pod(manifests)["volumes"] if one["name"] == "token"]
    assert len(volume["projected"]["sources"]) == 2


@pytest.mark.parametrize("component", _WITH_TOKEN)
def test_the_token_is_where_the_agent_looks_for_it(component: str) -> None:
    manifests = build(component)
    (mount,) = [one for one in container(manifests)["volumeMounts"] if one["name"] == "token"]
    (volume,) = [one for one in pod(manifests)["volumes"] if one["name"] == "token"]
    assert mount["mountPath"] == client._ACCOUNT
    token, authority = volume["projected"]["sources"]
    assert token["serviceAccountToken"]["path"] == "token"
    assert [one["path"] for one in authority["configMap"]["items"]] == ["ca.crt"]


def test_with_tls_a_scraper_must_give_a_password(tmp_path: Path) -> None:
    rules = read_rules(_web_config(tmp_path))
    assert rules.tls is not None
    assert not rules.lets_strangers_read
    (monitor,) = of_kind(build("monitoring", "tls"), "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]["serverName"]) == ("https", "numaudit")
    assert endpoint["basicAuth"]["username"]["key"] == "username"


def test_an_agent_without_capabilities_runs_no_probe_and_sees_no_tracefs(
    tmp_path: Path, monkeypatch: Environment
) -> None:
    manifests = build("passive")
    assert {"name": "NUMAUDIT_PROBES", "value": ""} in container(manifests)["env"]
    assert _settings(manifests, tmp_path, monkeypatch) == []
    assert not any(one["mountPath"] == "/sys/kernel/tracing" for one in container(manifests)["volumeMounts"])


@each_build
def test_memory_is_limited_and_cpu_time_is_not(names: tuple[str, ...]) -> None:
    resources = container(build(*names))["resources"]
    assert list(resources["limits"]) == ["memory"]
    asked, most = (resources[one]["memory"].removesuffix("Mi") for one in ("requests", "limits"))
    assert int(asked) < int(most)


def test_an_update_goes_over_a_tenth_of_the_nodes_at_a_time_and_leaves_the_agent_time_to_end() -> None:
    spec = daemonset(build())["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    assert pod(build())["terminationGracePeriodSeconds"] > 3  # docs/agent.md: it ends within three seconds
    assert pod(build())["tolerations"] == [{"operator": "Exists"}]
    assert pod(build())["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_the_operators_example_labels_monitors_and_rules_alike() -> None:
    """The operator of kube-prometheus-stack loads neither without it."""
    built = build_folder(DEPLOY / "examples/prometheus-operator")
    of_the_operator = [one for one in built if one["apiVersion"].startswith("monitoring.coreos.com/")]
    assert {one["kind"] for one in of_the_operator} == {"PodMonitor", "PrometheusRule"}
    assert {one["metadata"]["labels"]["release"] for one in of_the_operator} == {"kube-prometheus-stack"}


def test_the_page_names_every_component_and_example() -> None:
    page = (DEPLOY.parent / "docs/install.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert listed == set(COMPONENTS)
    for example in EXAMPLES:
        assert f"deploy/examples/{example.name}" in page
