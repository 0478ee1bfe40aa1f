"""A kubelet's configuration in the forms that people have it in: its file, its flags, and what wraps them. Pure.

Sources: k8s.io/kubelet/config/v1beta1/types.go, cmd/kubelet/app/options/options.go,
k8s.io/component-base/cli/flag/map_string_string.go; docs.k3s.io/cli/agent, machineconfiguration.openshift.io/v1,
Talos's v1alpha1 machine configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from numaudit.containermanager.memory.reserved import parse_reserved_memory
from numaudit.containermanager.plain import read_mapping, read_sequence, shown
from numaudit.errors import InputError, ParseError, nearest

ConfigDocument = Mapping[str, object]

_NAMES = """
apiVersion kind enableServer staticPodPath podLogsDir syncFrequency fileCheckFrequency httpCheckFrequency staticPodURL
staticPodURLHeader address port readOnlyPort tlsCertFile tlsPrivateKeyFile tlsCipherSuites tlsMinVersion
tlsCurvePreferences rotateCertificates serverTLSBootstrap authentication authorization registryPullQPS registryBurst
imagePullCredentialsVerificationPolicy preloadedImagesVerificationAllowlist eventRecordQPS eventBurst
enableDebuggingHandlers enableContentionProfiling healthzPort healthzBindAddress oomScoreAdj clusterDomain clusterDNS
streamingConnectionIdleTimeout nodeStatusUpdateFrequency nodeStatusReportFrequency nodeLeaseDurationSeconds
imageMinimumGCAge imageMaximumGCAge imageGCHighThresholdPercent imageGCLowThresholdPercent volumeStatsAggPeriod
kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver cpuManagerPolicy singleProcessOOMKill
cpuManagerPolicyOptions cpuManagerReconcilePeriod memoryManagerPolicy memoryManagerPolicyOptions topologyManagerPolicy
topologyManagerScope topologyManagerPolicyOptions qosReserved runtimeRequestTimeout hairpinMode maxPods podCIDR
podPidsLimit resolvConf runOnce cpuCFSQuota cpuCFSQuotaPeriod nodeStatusMaxImages maxOpenFiles contentType kubeAPIQPS
kubeAPIBurst serializeImagePulls maxParallelImagePulls evictionHard evictionSoft evictionSoftGracePeriod
evictionPressureTransitionPeriod evictionMaxPodGracePeriod evictionMinimumReclaim mergeDefaultEvictionSettings
podsPerCore enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit
iptablesDropBit featureGates failSwapOn memorySwap containerLogMaxSize containerLogMaxFiles containerLogMaxWorkers
containerLogMonitorInterval configMapAndSecretChangeDetectionStrategy systemReserved kubeReserved reservedSystemCPUs
showHiddenMetricsForVersion systemReservedCgroup kubeReservedCgroup enforceNodeAllocatable allowedUnsafeSysctls
volumePluginDir providerID kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery
shutdownGracePeriod shutdownGracePeriodCriticalPods shutdownGracePeriodByPodPriority crashLoopBackOff reservedMemory
enableProfilingHandler enableDebugFlagsHandler seccompDefault memoryThrottlingFactor registerWithTaints registerNode
tracing localStorageCapacityIsolation containerRuntimeEndpoint imageServiceEndpoint failCgroupV1 userNamespaces
systemPartition
"""
FIELDS = frozenset(_NAMES.split())
"""All fields that a KubeletConfiguration has or had, of any version."""

KIND = "KubeletConfiguration"
_WRAPPINGS = ("kubeletconfig", "spec.kubeletConfig", "machine.kubelet.extraConfig")
"""The place of a KubeletConfiguration in the kubelet's answer to /configz, in OpenShift's KubeletConfig, and in Talos's
machine configuration."""
_ARGUMENTS = ("kubelet-arg", "kubelet-arg+", "machine.kubelet.extraArgs", "nodeRegistration.kubeletExtraArgs")
"""The place of flags in the configuration of k3s and RKE2, in Talos's, and in kubeadm's."""
IN_FORCE = "kubectl get --raw /api/v1/nodes/NODE/proxy/configz"
"""Shows what is in force on a node."""

# Flag -> field of KubeletConfiguration, by the kind of its value.
_TEXTS = {
    "memory-manager-policy": "memoryManagerPolicy",
    "cpu-manager-policy": "cpuManagerPolicy",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "reserved-cpus": "reservedSystemCPUs",
    "address": "address",
}
_NUMBERS = {"port": "port", "read-only-port": "readOnlyPort"}
_MAPS = {
    "kube-reserved": ("kubeReserved", "="),
    "system-reserved": ("systemReserved", "="),
    "eviction-hard": ("evictionHard", "<"),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", "="),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", "="),
}
_PATHS = ("config", "config-dir", "root-dir")
_OTHERS = ("feature-gates", "reserved-memory")
KNOWN_FLAGS = frozenset([*_TEXTS, *_NUMBERS, *_MAPS, *_PATHS, *_OTHERS])
"""Flags of the kubelet that are read here."""


class KubeletFlags(Struct, frozen=True):
    """Flags of the kubelet that numaudit uses."""

    fields: ConfigDocument = field(default_factory=dict)
    """As fields of a KubeletConfiguration."""
    config: str | None = None
    config_dir: str | None = None
    root_dir: str | None = None


def read_flags(arguments: Sequence[str]) -> KubeletFlags:
    """The command line without the program's name. Flags of other subjects are passed over.

    Raises ParseError for a value that the kubelet would refuse.
    """
    given = _collect(arguments)
    fields: dict[str, object] = {name: given[flag][-1] for flag, name in _TEXTS.items() if flag in given}
    for flag, name in _NUMBERS.items():
        if flag in given:
            fields[name] = _number(flag, given[flag][-1])
    for flag, (name, sign) in _MAPS.items():
        if flag in given:
            fields[name] = _pairs(flag, given[flag], sign)
    if "feature-gates" in given:
        pairs = _pairs("feature-gates", given["feature-gates"], "=")
        fields["featureGates"] = {gate: _boolean("feature-gates", value) for gate, value in pairs.items()}
    if "reserved-memory" in given:
        fields["reservedMemory"] = _reserved_memory(given["reserved-memory"])
    config, config_dir, root_dir = (given[flag][-1] if flag in given else None for flag in _PATHS)
    return KubeletFlags(fields, config, config_dir, root_dir)


def known_flags(arguments: Sequence[str]) -> tuple[str, ...]:
    """Only those flags of a command line that `read_flags` reads, as --name=value."""
    return tuple(f"--{name}={value}" for name, values in _collect(arguments).items() for value in values)


def _collect(arguments: Sequence[str]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            break
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name not in KNOWN_FLAGS:
            continue
        if not equals:
            value = next(left, "")
        given.setdefault(name, []).append(value)
    return given


def _number(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParseError(f"--{flag}: not a number: {text[:60]!r}") from None


def _pairs(flag: str, values: Sequence[str], sign: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in ",".join(values).split(","):
        key, found, value = part.partition(sign)
        if not part.strip():
            continue
        if not found:
            raise ParseError(f"--{flag}: expected KEY{sign}VALUE, found {part[:60]!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _boolean(flag: str, text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ParseError(f"--{flag}: expected true or false, found {text[:60]!r}")


def _reserved_memory(values: Sequence[str]) -> list[dict[str, object]]:
    try:
        reservations = parse_reserved_memory(values)
    except InputError as error:
        raise ParseError(f"--reserved-memory: {error}") from None
    return [
        {"numaNode": one.numa_node, "limits": {name: str(quantity) for name, quantity in one.limits.items()}}
        for one in reservations
    ]


def unknown_fields(document: ConfigDocument) -> dict[str, str]:
    """Fields that a kubelet does not have -> the end of a sentence with the names that are near; empty = none is.

    In a file a kubelet passes them over with a warning in its log (pkg/kubelet/kubeletconfig/util/codec).
    """
    return {name: nearest(name, FIELDS) for name in document if name not in FIELDS}


class WrappedConfiguration(Struct, frozen=True):
    """A configuration that was found in something else."""

    fields: ConfigDocument
    path: str
    """Of the fields, in what was given."""


def unwrap(value: object) -> WrappedConfiguration | None:
    """The configuration in what people have of it; None = this is no wrapping that is known.

    Raises InputError, with the path, for flags that a kubelet would refuse or that name another file, and for an
    object of another kind.
    """
    places = [path for path in _WRAPPINGS if isinstance(_at(value, path), Mapping)]
    given = [path for path in _ARGUMENTS if _at(value, path) is not None]
    fields = dict(read_mapping(_at(value, places[0]), places[0])) if places else {}
    for path in given:
        fields |= _of_arguments(_at(value, path), path)
    if places or given:
        return WrappedConfiguration(fields, (places or given)[0])
    kind = _at(value, "kind")
    if kind not in (None, KIND):
        raise InputError(f"kind: there is no {KIND} in {shown(kind)}; give the one in force: {IN_FORCE}")
    return None


def _at(value: object, path: str) -> object:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _of_arguments(value: object, path: str) -> ConfigDocument:
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):  # kubeadm.k8s.io/v1beta4
        arguments = [f"--{one.get('name')}={one.get('value')}" for one in value]
    elif isinstance(value, Mapping):  # Talos and kubeadm.k8s.io/v1beta3: a flag's name -> its value, or a list of them
        pairs = [
            (name, one) for name, all_of in value.items() for one in (all_of if isinstance(all_of, list) else [all_of])
        ]
        arguments = [f"--{name}={one}" for name, one in pairs]
    else:
        arguments = [
            f"--{str(one).lstrip('-')}" for one in ([value] if isinstance(value, str) else read_sequence(value, path))
        ]
    try:
        flags = read_flags(arguments)
    except ParseError as error:
        raise InputError(f"{path}: {error}") from None
    if flags.config or flags.config_dir:
        raise InputError(
            f"{path}: the kubelet's configuration is in {flags.config or flags.config_dir}, which these flags name: "
            f"give that file, or what is in force: {IN_FORCE}"
        )
    return flags.fields
