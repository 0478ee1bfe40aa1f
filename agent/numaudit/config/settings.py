"""The agent's settings: a YAML file, the environment above it, flags above both.

A setting is one field below. Its kind checks the value, its help goes to docs/config.md, its path (`web.timeout`)
is what a file, `--set` and messages call it, and NUMAUDIT_WEB_TIMEOUT is its environment variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from numaudit.config.kinds import (
    KindOf,
    address,
    boolean,
    choice,
    choices,
    duration,
    file,
    mapping,
    number,
    percent,
    reasons,
    selectors,
    url,
)
from numaudit.evaluation.setup import check_id
from numaudit.evaluation.verdicts import DEFAULT, Thresholds
from numaudit.exporters import selection
from numaudit.exporters.metric import IDENTITY
from numaudit.exporters.selection import Selector
from numaudit.kernel.host import KubeletConnection
from numaudit.probes.kinds import KINDS

ENVIRONMENT_PREFIX = "NUMAUDIT_"
Value = TypeVar("Value")
Pairs = tuple[tuple[str, str], ...]


def _setting(default: Value, kind: KindOf, help_: str, secret: bool = False, reloads: bool = False) -> Value:
    """`reloads`: another value takes effect in a running agent."""
    return field(default=default, metadata={"kind": kind, "help": help_, "secret": secret, "reloads": reloads})


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Severity and format of messages on stderr."""

    level: str = _setting("info", choice("debug", "info", "warning", "error"), "Lowest severity to log.", reloads=True)
    format: str = _setting(
        "text",
        choice("text", "json"),
        "Log format: `text` for people, or `json` with one object on each line.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The HTTP server."""

    config_file: Path | None = _setting(
        None,
        file(),
        "Prometheus web-config file with TLS, client certificates and users, read again when it changes.",
    )
    max_connections: int = _setting(
        128,
        number(4, 4096),
        "Maximum number of open connections. Beyond it, the one idle longest is closed.",
    )
    timeout: float = _setting(5.0, duration(0.1, 300), "Time limit for reading a request, and for its answer.")


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Series of both exporters."""

    labels: tuple[str, ...] = _setting(
        IDENTITY,
        choices(*IDENTITY),
        "Labels of container series. With fewer, series that become the same are added up; info and ratios, which "
        "cannot be added up, are left out.",
        reloads=True,
    )
    exclude: tuple[Selector, ...] = _setting(
        tuple(map(selection.parse, ("kind=sandbox", "kind=pod", "kind=slice", "kind=parent"))),
        selectors(),
        "Containers that get no series. A selector has shell patterns for namespace, pod, kind "
        f"({', '.join(selection.KINDS)}) and cgroup; `*` selects every container.",
        reloads=True,
    )
    include: tuple[Selector, ...] = _setting(
        (), selectors(), "Containers that get series although `metrics.exclude` selects them.", reloads=True
    )
    max_series: int = _setting(
        100_000,
        number(100, 10_000_000),
        "Maximum number of container series. Beyond it, whole containers are left out, first those with the best "
        "verdicts and the fewest remote bytes, and `numaudit_omitted_series` counts the missing series.",
        reloads=True,
    )
    max_ended: int = _setting(
        1000,
        number(0, 1_000_000),
        "Maximum number of ended containers that are kept for the next two scrapes.",
        reloads=True,
    )
    created: bool = _setting(
        False,
        boolean(),
        "Add a `_created` series to each counter in OpenMetrics. Prometheus stores it as one more series "
        "unless it runs with `--enable-feature=created-timestamp-zero-ingestion`.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """The push to an OpenTelemetry collector."""

    endpoint: str | None = _setting(
        None,
        url(),
        "URL of the OTLP/HTTP receiver, such as http://collector:4318/v1/metrics, with user and password if needed. "
        "Without it nothing is pushed.",
    )
    interval: float = _setting(60.0, duration(1, 3600), "Time between two pushes.")
    timeout: float = _setting(
        10.0, duration(0.1, 300), "Time limit for one push, with its connection, answers and retries."
    )
    compression: str = _setting("gzip", choice("gzip", "none"), "Compression of the request body.")
    ca_file: Path | None = _setting(None, file(), "CA bundle for the receiver, read at start; by default the system's.")
    headers: Pairs = _setting((), mapping(), "HTTP headers of each push, such as an authorization token.", secret=True)
    resource: Pairs = _setting(
        (), mapping(), "Resource attributes to add, such as k8s.cluster.name. They override detected ones."
    )


@dataclass(frozen=True, slots=True)
class NrtSettings:
    """The NodeResourceTopology of this node, for schedulers."""

    publish: str = _setting(
        "none",
        choice("none", "annotations", "own"),
        "Fields that are written at the API server: `annotations` of the object that another writer makes, or with "
        "`own` the whole object, where nobody else owns its zones. This needs the package lightkube, which the image "
        "has, and rights (deploy/components/nrt).",
    )
    interval: float = _setting(
        60.0,
        duration(5, 3600),
        "Time between two looks at the object. What changes on this node is written after the tick that sees it, at "
        "most every ten seconds.",
    )
    timeout: float = _setting(10.0, duration(0.1, 300), "Time limit for one answer of the API server.")
    kubeconfig: Path | None = _setting(
        None,
        file(),
        "Kubeconfig for the API server, read again for each request; by default $KUBECONFIG, the pod's service "
        "account, or ~/.kube/config.",
    )


@dataclass(frozen=True, slots=True)
class OverheadSettings:
    """The CPU budget of measuring."""

    max_cpu_percent: float = _setting(
        1.0,
        percent(0.01, 100),
        "CPU budget of the probes, in percent of all CPUs' time, by estimate. Beyond it, the agent pauses page_alloc, "
        "then watches fewer containers, then pauses hint_faults and pmu. Each resumes when the load falls.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Connection to the kubelet where the host does not show it, as in a pod with a network of its own."""

    url: str | None = _setting(
        None,
        url(),
        "URL of the kubelet's API (https://NODE:10250 or http://NODE:10255), by default from the kubelet's settings.",
    )
    token_file: Path | None = _setting(
        None, file(), "Bearer token file for the kubelet's API, by default the service account's."
    )
    ca_file: Path | None = _setting(
        None,
        file(),
        "CA bundle for the kubelet's API, by default the kubelet's own certificate or the cluster's CA.",
    )
    cgroup: Path | None = _setting(
        None,
        file(),
        "Path of the kubelet's cgroup, such as /system.slice/kubelet.service, where several processes are called "
        "kubelet, or where it runs in a container.",
    )
    log_file: Path | None = _setting(None, file(), "Path of the kubelet's log, by default the journal.")
    max_age: float = _setting(
        600.0,
        duration(60.0, 86400.0),
        "Time for which the last values of a source of the kubelet that does not answer are used.",
        reloads=True,
    )

    @property
    def connection(self) -> KubeletConnection:
        return KubeletConnection(
            self.url, self.token_file, self.ca_file, self.log_file, None if self.cgroup is None else str(self.cgroup)
        )


@dataclass(frozen=True, slots=True)
class VerdictSettings:
    """The limits of verdicts; docs/verdicts.md says what each decides."""

    cpu_remote_percent: float = _setting(
        100 * DEFAULT.cpu_remote_share,
        percent(0, 100),
        "Limit for cpu-remote: share of CPU time on nodes that were not promised.",
        reloads=True,
    )
    spilled_percent: float = _setting(
        100 * DEFAULT.spilled_share,
        percent(0, 100),
        "Limit for spilled: share of judged bytes outside the promised nodes.",
        reloads=True,
    )
    spilled_bytes: int = _setting(
        DEFAULT.spilled_bytes,
        number(0, 1 << 50),
        "Second limit for spilled, which must also be exceeded: judged bytes outside the promised nodes.",
        reloads=True,
    )
    remote_access_percent: float = _setting(
        100 * DEFAULT.remote_access_share,
        percent(0, 100),
        "Limit for remote-access: share of remote accesses or, where they are not counted, of memory used remotely.",
        reloads=True,
    )
    window: float = _setting(
        DEFAULT.window,
        duration(15, 86400),
        "Time over which verdicts weigh samples of memory and CPU time; newer samples weigh more.",
        reloads=True,
    )

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(
            cpu_remote_share=self.cpu_remote_percent / 100,
            spilled_share=self.spilled_percent / 100,
            spilled_bytes=self.spilled_bytes,
            remote_access_share=self.remote_access_percent / 100,
            window=self.window,
        )


@dataclass(frozen=True, slots=True)
class RankSettings:
    """The watch over processes with a declared placement; docs/ranks.md explains it."""

    enabled: bool = _setting(
        False,
        boolean(),
        "Watch [ranks](ranks.md).",
        reloads=True,
    )
    max_processes: int = _setting(
        200,
        number(1, 100_000),
        "Processes and cgroups read in one tick.",
        reloads=True,
    )
    max_cpu_time: float = _setting(
        0.1,
        duration(0.001, 60),
        "CPU time for them in one tick.",
        reloads=True,
    )
    interval: float = _setting(60.0, duration(1, 86400), "Least time between rounds.", reloads=True)


@dataclass(frozen=True, slots=True)
class SetupSettings:
    """The rules of `numaudit setup`."""

    accepted: Pairs = _setting(
        (),
        reasons(check_id),
        "Rules whose findings are accepted on this node, with the reason, such as `nodes-unequal: by design`.",
        reloads=True,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of `numaudit agent`."""

    listen: tuple[str, int] = _setting(
        ("127.0.0.1", 9746), address(), "HOST:PORT of the HTTP server; `:9746` listens on all interfaces."
    )
    interval: float = _setting(15.0, duration(1, 3600), "Time between two ticks.", reloads=True)
    probes: tuple[str, ...] = _setting(
        tuple(sorted(kind.name for kind in KINDS if kind.in_agent)),
        choices(*sorted(kind.name for kind in KINDS)),
        "Probes to run; an empty list runs none. page_alloc runs for every page that the kernel allocates.",
    )
    kubelet: KubeletSettings = KubeletSettings()
    verdicts: VerdictSettings = VerdictSettings()
    overhead: OverheadSettings = OverheadSettings()
    ranks: RankSettings = RankSettings()
    setup: SetupSettings = SetupSettings()
    log: LogSettings = LogSettings()
    web: WebSettings = WebSettings()
    metrics: MetricsSettings = MetricsSettings()
    otlp: OtlpSettings = OtlpSettings()
    nrt: NrtSettings = NrtSettings()


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting, as documents and messages name it."""

    path: str
    default: Any
    kind: KindOf
    help: str
    secret: bool
    reloads: bool
    """True when another value takes effect in a running agent."""

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.path.replace(".", "_").upper()


def keys(section: type = Settings, prefix: str = "") -> Iterator[SettingKey]:
    """Every setting, in the order of the documents."""
    for one in fields(section):
        path = prefix + one.name
        if is_dataclass(one.default):
            yield from keys(cast("type", type(one.default)), f"{path}.")
        else:
            meta = one.metadata
            yield SettingKey(path, one.default, meta["kind"], meta["help"], meta["secret"], meta["reloads"])


KEYS: dict[str, SettingKey] = {key.path: key for key in keys()}
