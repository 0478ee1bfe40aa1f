"""Pods: reading manifests, QoS, what containers and pods ask for, and names in place of UIDs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubelets.pods import bare, container, pod, quantities
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.requests import container_requests, pod_requests
from numaudit.containermanager.pod.spec import (
    Resources,
    full_name,
    is_ordinary_init,
    is_sidecar,
    is_unsupported,
    qos,
    with_names,
)
from numaudit.containermanager.versions import (
    LATEST_FEATURES,
    KubeletFeatures,
    nearest_described,
    parse_version,
    read_feature_gates,
)
from numaudit.errors import InputError

GI = 2**30
POD_LEVEL = KubeletFeatures(pod_level_resource_managers=True)
OLD = KubeletFeatures((1, 28), pod_level_resources=False)

Manifest = dict[str, object]


def manifest(*containers: Manifest, init: tuple[Manifest, ...] = (), **spec: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
    }


def asking(name: str, **resources: dict[str, object]) -> Manifest:
    return {"name": name, "image": "x", "resources": resources}


class TestManifest:
    def test_what_matters_is_read_and_the_rest_is_ignored(self) -> None:
        read = read_pod(
            manifest(
                asking("app", limits={"cpu": 1, "memory": "1024Mi"}),
                init=({**asking("side"), "restartPolicy": "Always"},),
                restartPolicy="Always",
            )
        )
        assert (read.name, read.namespace, read.uid) == ("db", "shop", "u1")
        assert read.containers[0].resources.requests == quantities({"cpu": "1", "memory": "1Gi"})
        assert not read.containers[0].restarts_always
        assert read.init_containers[0].restarts_always
        assert qos(read, LATEST_FEATURES) == "Burstable"

    def test_a_missing_request_is_the_limit_unless_the_pod_is_to_be_taken_as_it_stands(self) -> None:
        only_limits = manifest(asking("app", limits={"cpu": "1", "memory": "1Gi"}))
        assert qos(read_pod(only_limits), LATEST_FEATURES) == "Guaranteed"
        assert qos(read_pod(only_limits, defaults=False), LATEST_FEATURES) == "Burstable"

    def test_amounts_are_taken_as_the_api_server_stores_them(self) -> None:
        read = read_pod(manifest(asking("app", limits={"cpu": 0.5, "memory": "1.5Gi"})))
        assert container_requests(read, read.containers[0], LATEST_FEATURES) == {"memory": 3 * GI // 2}

    def test_a_pod_without_uid_goes_by_its_name(self) -> None:
        assert read_pod({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}).uid == "default/x"

    @pytest.mark.parametrize(
        ("broken", "message"),
        [
            ([], "pod: must be a mapping, not list"),
            ({"kind": "Deployment"}, "kind: a v1 Pod is needed, not 'Deployment'"),
            ({"metadata": {"name": "x"}}, "spec: must be a mapping, not absent"),
            ({"metadata": {"name": 5}, "spec": {}}, "metadata.name: must be text"),
            ({"metadata": {"name": "x"}, "spec": {}}, "spec.containers: a pod needs at least one container"),
            (manifest({"name": ""}), r"spec.containers\[0\].name: must be text"),
            (manifest({"name": "a"}, {"name": "a"}), "two containers are named 'a'"),
            (manifest({"name": "a"}, init=({"name": "a"},)), "two containers are named 'a'"),
            (manifest("a"), r"spec.containers\[0\]: must be a mapping, not str"),  # type: ignore[arg-type]
            (manifest(asking("a", limit={})), r"spec.containers\[0\].resources: unknown field 'limit'"),
            (manifest(asking("a", limits={"memory": True})), r"limits.memory: must be a quantity"),
            (manifest(asking("a", limits={"memory": "1GB"})), r"limits.memory: unknown suffix 'GB'"),
            (manifest(asking("a", limits={"memory": "-1Gi"})), r"limits.memory: must not be negative"),
            (manifest(asking("a", limits={"memory": float("inf")})), r"limits.memory: must be a finite quantity"),
            (manifest(asking("a", limits={1: "1"})), r"limits: field names must be text, not 1"),  # type: ignore[dict-item]
            (manifest({"name": "a", "restartPolicy": "Sometimes"}), r"restartPolicy: must be Always"),
            ({**manifest({"name": "a"}), "status": {"qosClass": "Gold"}}, "status.qosClass: must be Guaranteed"),
            (
                {**manifest({"name": "a"}), "status": {"containerStatuses": {}}},
                "status.containerStatuses: must be a list",
            ),
        ],
    )
    def test_a_bad_field_is_named(self, broken: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_pod(broken)

    def test_pod_level_requests_are_filled_in_from_the_containers_or_the_limits(self) -> None:
        read = read_pod(
            manifest(
                asking("a", requests={"cpu": "1"}),
                asking("b", requests={"cpu": "2"}),
                resources={"limits": {"cpu": "4", "memory": "8Gi"}},
            )
        )
        assert read.resources is not None
        assert read.resources.requests == quantities({"cpu": "3", "memory": "8Gi"})


class TestQos:
    def test_guaranteed_needs_equal_cpu_and_memory_in_every_container(self) -> None:
        assert qos(pod("a", container("x"), container("y")), LATEST_FEATURES) == "Guaranteed"
        assert qos(pod("a", container("x"), bare("y")), LATEST_FEATURES) == "Burstable"
        assert qos(pod("a", container("x"), init=(bare("i"),)), LATEST_FEATURES) == "Burstable"
        assert qos(pod("a", container("x", "1Gi", limit="2Gi")), LATEST_FEATURES) == "Burstable"
        assert qos(pod("a", bare("x")), LATEST_FEATURES) == "BestEffort"

    def test_only_sums_are_compared(self) -> None:
        uneven = (container("x", "1Gi", limit="2Gi"), container("y", "2Gi", limit="1Gi"))
        assert qos(pod("a", *uneven), LATEST_FEATURES) == "Guaranteed"

    def test_zero_and_other_resources_do_not_count(self) -> None:
        assert qos(pod("a", container("x", "0", "0")), LATEST_FEATURES) == "BestEffort"
        huge = replace(bare("x"), resources=Resources(quantities({"hugepages-2Mi": "2Mi"})))
        assert qos(pod("a", huge), LATEST_FEATURES) == "BestEffort"

    def test_the_status_wins(self) -> None:
        assert qos(replace(pod("a"), status_qos="Burstable"), LATEST_FEATURES) == "Burstable"

    def test_1_28_does_not_read_the_class_of_the_status(self) -> None:
        assert qos(replace(pod("a"), status_qos="Burstable"), KubeletFeatures((1, 28))) == "Guaranteed"

    def test_pod_level_resources_alone_count_where_the_kubelet_knows_them(self) -> None:
        one = pod("a", bare("x"), resources={"cpu": "1", "memory": "1Gi"})
        assert qos(one, LATEST_FEATURES) == "Guaranteed"
        assert qos(one, OLD) == "BestEffort"
        assert qos(pod("a", container("x"), resources={"cpu": "1"}), LATEST_FEATURES) == "Burstable"

    def test_pod_level_requests_without_limits_are_burstable(self) -> None:
        one = replace(pod("a"), resources=Resources(requests=quantities({"cpu": "1", "memory": "1Gi"})))
        assert qos(one, LATEST_FEATURES) == "Burstable"


class TestRequests:
    def test_only_memory_and_huge_pages_count(self) -> None:
        one = pod("a", container("x", "1Gi", more={"hugepages-2Mi": "4Mi", "vendor.example/nic": "1"}))
        assert container_requests(one, one.containers[0], LATEST_FEATURES) == {"memory": GI, "hugepages-2Mi": 4 << 20}

    def test_containers_of_a_pod_managed_as_one_need_to_be_guaranteed_themselves(self) -> None:
        one = pod("a", container("own"), container("more", "1Gi", limit="2Gi"), resources={"cpu": "4", "memory": "4Gi"})
        assert [container_requests(one, each, POD_LEVEL) for each in one.containers] == [{"memory": GI}, {}]
        assert pod_requests(one, POD_LEVEL) == {"memory": 4 * GI}

    def test_a_container_that_asks_for_no_cpu_is_not_guaranteed_itself(self) -> None:
        one = pod("a", container("none", cpu="0"), resources={"cpu": "4", "memory": "4Gi"})
        assert container_requests(one, one.containers[0], POD_LEVEL) == {}

    def test_old_kubelets_with_in_place_resize_take_what_the_status_says(self) -> None:
        read = read_pod(
            {
                **manifest(asking("app", limits={"cpu": "1", "memory": "2Gi"})),
                "status": {"containerStatuses": [{"name": "app", "allocatedResources": {"memory": "1Gi"}}]},
            }
        )
        resizing = KubeletFeatures((1, 32), in_place_pod_vertical_scaling=True)
        assert container_requests(read, read.containers[0], resizing) == {"memory": GI}
        assert container_requests(read, read.containers[0], LATEST_FEATURES) == {"memory": 2 * GI}

    def test_old_kubelets_with_in_place_resize_look_at_the_status_of_app_containers_only(self) -> None:
        asks: dict[str, object] = {"cpu": "1", "memory": "2Gi"}
        side = {**asking("side", limits=asks), "restartPolicy": "Always"}
        made = {
            "metadata": {"name": "a"},
            "spec": {"containers": [asking("app", limits=asks)], "initContainers": [side]},
            "status": {"initContainerStatuses": [{"name": "side", "allocatedResources": {"memory": "1Gi"}}]},
        }
        read = read_pod(made)
        resizing = KubeletFeatures((1, 32), in_place_pod_vertical_scaling=True)
        assert container_requests(read, read.init_containers[0], resizing) == {"memory": 2 * GI}


class TestFeatures:
    def test_sidecars_are_told_apart_since_1_32(self) -> None:
        one = pod("a", init=(container("s", sidecar=True), container("i")))
        assert is_sidecar(one, "s", LATEST_FEATURES)
        assert is_ordinary_init(one, "s", OLD)
        assert is_ordinary_init(one, "i", LATEST_FEATURES)
        assert not is_ordinary_init(one, "app", OLD)

    def test_pod_level_resources_need_both_gates(self) -> None:
        one = pod("a", resources={"hugepages-2Mi": "2Mi"})
        assert is_unsupported(one, LATEST_FEATURES)
        assert not is_unsupported(one, POD_LEVEL)
        assert not is_unsupported(pod("a", resources={"vendor.example/nic": "1"}), LATEST_FEATURES)
        limited = replace(pod("a"), resources=Resources(limits=quantities({"cpu": "1"})))
        assert is_unsupported(limited, LATEST_FEATURES)

    def test_a_container_is_found_by_name_or_the_names_are_listed(self) -> None:
        assert pod("a").container("app").name == "app"
        with pytest.raises(InputError, match="pod default/a has no container 'x'; it has app"):
            pod("a").container("x")

    def test_a_version_in_between_behaves_as_the_lower_one_with_a_notice(self) -> None:
        features, notice = KubeletFeatures.of("v1.30.4+rke2r1")
        assert features.version == (1, 28)
        assert notice == "Kubernetes 1.30 is taken for 1.28, whose kubelet is known exactly"
        assert KubeletFeatures.of("1.36.2") == (LATEST_FEATURES, None)

    @pytest.mark.parametrize(("version", "taken_for"), [((1, 23), (1, 23)), ((1, 24), (1, 28)), ((1, 27), (1, 28))])
    def test_a_version_that_merges_hints_as_1_28_is_not_taken_for_1_23(
        self, version: tuple[int, int], taken_for: tuple[int, int]
    ) -> None:
        assert nearest_described(version)[0] == taken_for

    def test_older_and_newer_versions_are_taken_for_the_nearest(self) -> None:
        assert nearest_described((1, 19)) == (
            (1, 23),
            "Kubernetes 1.19 is taken for 1.23, whose kubelet is known exactly",
        )
        assert nearest_described((1, 40))[0] == (1, 38)
        assert nearest_described((2, 0))[0] == (1, 38)

    def test_a_gate_that_changes_answers_and_is_not_modelled_is_named(self) -> None:
        for gate, what in (
            ("MemoryManagerDriftTolerance", "although a node's memory differs a little"),
            ("MemoryManagerHugepagesVerification", "that the kernel does not have free"),
            ("InPlacePodVerticalScalingExclusiveCPUs", "resizes pods that have exclusive CPUs"),
            ("NodeSystemPartition", "for the system's own pods"),
        ):
            features, notice = KubeletFeatures.of("1.38", {gate: True})
            assert features.version == (1, 38)
            assert notice is not None
            assert notice.startswith(f"the feature gate {gate} is on, which is not modelled here: ")
            assert notice.endswith(what)
            assert KubeletFeatures.of("1.38", {gate: False}) == (KubeletFeatures((1, 38)), None)

    def test_feature_gates_are_read_and_unknown_ones_refused_with_the_nearest(self) -> None:
        assert read_feature_gates("PodLevelResourceManagers=true, AllAlpha=0") == {
            "PodLevelResourceManagers": True,
            "AllAlpha": False,
        }
        with pytest.raises(InputError, match=r"unknown gate 'PodLevelManagers'; .* PodLevelResourceManagers is the"):
            read_feature_gates("PodLevelManagers=true")
        with pytest.raises(InputError, match=r"unknown gate 'MemoryManagerTolerance'; .* MemoryManagerDriftTolerance"):
            read_feature_gates("MemoryManagerTolerance=true")
        with pytest.raises(InputError, match="write it as PodLevelResourceManagers=true"):
            read_feature_gates("PodLevelResourceManagers")

    def test_gates_have_the_defaults_of_the_real_version(self) -> None:
        assert not KubeletFeatures.of("1.33")[0].pod_level_resources
        assert KubeletFeatures.of("1.34")[0].pod_level_resources
        gated, _ = KubeletFeatures.of("1.36", {"PodLevelResourceManagers": True, "InPlacePodVerticalScaling": True})
        assert gated.manages_pod_level
        assert not gated.in_place_pod_vertical_scaling
        assert KubeletFeatures.of("1.28", {"InPlacePodVerticalScaling": True})[0].in_place_pod_vertical_scaling

    @pytest.mark.parametrize(
        ("version", "gate"),
        [
            ("1.28", "PodLevelResourceManagers"),
            ("1.32", "PodLevelResourceManagers"),
            ("1.35.9", "PodLevelResourceManagers"),
            ("1.31", "PodLevelResources"),
            ("1.26", "InPlacePodVerticalScaling"),
        ],
    )
    def test_a_gate_that_the_version_does_not_have_stops_the_kubelet(self, version: str, gate: str) -> None:
        for is_on in (True, False):
            with pytest.raises(InputError, match=f"featureGates: unrecognized feature gate: {gate}; Kubernetes 1"):
                KubeletFeatures.of(version, {gate: is_on})

    def test_all_alpha_gates_are_opened_together_but_for_those_named(self) -> None:
        assert KubeletFeatures.of("1.36", {"AllAlpha": True})[0].manages_pod_level
        named = {"AllAlpha": True, "PodLevelResourceManagers": False}
        assert not KubeletFeatures.of("1.36", named)[0].manages_pod_level
        assert KubeletFeatures.of("1.32", {"AllAlpha": True})[0] == KubeletFeatures(
            (1, 32), pod_level_resources=True, in_place_pod_vertical_scaling=True
        )
        assert not KubeletFeatures.of("1.36", {"AllBeta": False})[0].pod_level_resources
        assert KubeletFeatures.of("1.28", {"AllAlpha": True})[0].in_place_pod_vertical_scaling

    def test_no_version_before_its_first_has_a_gate_open(self) -> None:
        assert not KubeletFeatures((1, 32), pod_level_resource_managers=True).manages_pod_level
        amounts = quantities({"cpu": "1", "memory": "1Gi"})
        of_pod = replace(pod("a", bare("app")), resources=Resources(amounts, amounts))
        assert qos(of_pod, KubeletFeatures()) == "Guaranteed"
        assert qos(of_pod, KubeletFeatures((1, 28))) == "BestEffort"

    @pytest.mark.parametrize("text", ["", "1", "latest", "1.x", "1.2345", "-1.2", "1.36x"])
    def test_other_text_is_no_version(self, text: str) -> None:
        with pytest.raises(InputError, match="not a Kubernetes version"):
            parse_version(text)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("prod", "mysql-0", "uid", "db"), "prod/mysql-0/db"),
        (("prod", "mysql-0", "uid", None), "prod/mysql-0"),
        ((None, None, "uid", "db"), "pod uid/db"),
        ((None, None, None, "/web"), "/web"),
        ((None, None, None, None), ""),
    ],
)
def test_a_container_is_called_as_far_as_its_names_are_known(
    parts: tuple[str | None, str | None, str | None, str | None], name: str
) -> None:
    assert full_name(*parts) == name


def test_only_whole_uids_that_have_a_name_are_replaced() -> None:
    names = {"abc": "prod/a", "abc-d": "prod/b", "": "nobody"}
    text = "pod abc, pod abc-d; entries.abc.db (abcd, xabc, abc-e)"
    assert with_names(text, names) == "pod prod/a, pod prod/b; entries.prod/a.db (abcd, xabc, abc-e)"
    assert with_names("pod x has 2 of 3", names) == "pod x has 2 of 3"
