"""Settings: where they come from, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.config import yaml_file
from numaudit.config.loading import check, load, reloaded
from numaudit.config.settings import KEYS, Settings
from numaudit.engine.observer import Observer
from numaudit.errors import InputError
from numaudit.evaluation.verdicts import DEFAULT
from numaudit.kernel.host import Host, KubeletConnection


def _file(folder: Path, body: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(body)
    return path


def test_without_any_source_all_is_default() -> None:
    loaded = load(None, {}, [])
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "interval: 10s\nlisten: ':1'\nweb:\n  timeout: 250ms\n")
    loaded = load(path, {"NUMAUDIT_INTERVAL": "20s", "NUMAUDIT_LISTEN": "[::1]:2"}, [("--interval", "interval", "1m")])
    assert loaded.settings.interval == 60
    assert loaded.settings.listen == ("::1", 2)
    assert loaded.settings.web.timeout == 0.25
    assert loaded.origins["interval"] == "flag --interval"
    assert loaded.origins["listen"] == "environment NUMAUDIT_LISTEN"
    assert loaded.origins["web.timeout"] == f"{path}:4"
    assert loaded.origins["otlp.interval"] == "default"


SOME_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12),
    st.lists(st.sampled_from(["namespace", "pod", "kind=pod", "page_alloc", "x"]), max_size=3),
    st.dictionaries(st.text(max_size=4), st.one_of(st.text(max_size=4), st.integers(), st.booleans()), max_size=2),
    st.sampled_from([
        "5s", "2.5m", "10", "300ms", "50%", "yes", "True", "OFF", "debug", "json", "none", "own", "pod, node", ":9746",
        "[::1]:80", "HTTP://x", "https://a:b@c/d", "", "/a/b", "a=b,c=d", "kind=pod", 0, 1, 5, 60, 100, 1000, 0.5, 0.1,
    ]),
)  # fmt: skip


def as_written(value: object) -> object:
    """A value of the chart as the agent reads it in YAML."""
    if isinstance(value, dict):
        return {name: as_written(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_written(one) for one in value]
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(st.sampled_from(sorted(KEYS)), SOME_VALUES)
def test_the_schema_refuses_no_value_that_the_agent_takes(path: str, value: object) -> None:
    kind = KEYS[path].kind
    if value is not None:  # which leaves a setting as it is
        try:
            kind.parse(as_written(value))
        except ValueError:
            return
    is_text = kind.schema.get("type") == ["string", "null"]  # which a chart's values have in quotes
    jsonschema.validate(as_written(value) if is_text else value, kind.schema)


@pytest.mark.parametrize("path", sorted(KEYS))
def test_the_schema_of_each_setting_refuses_what_the_agent_refuses(path: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": ["b"]}, KEYS[path].kind.schema)


DIGITS = "9" * 5000
SHOWN = f"'{DIGITS[:60]}...'"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"\ninterval: {DIGITS}\n", f"agent.yaml:2: interval must be a duration from 1s to 3600s, not {SHOWN}"),
        (
            f"web: {{max_connections: {DIGITS}}}",
            f"web.max_connections must be a whole number from 4 to 4096, not {SHOWN}",
        ),
        ("otlp:\n  headers:\n    a: [b]\n", "agent.yaml:2: otlp.headers must be names and texts"),
        ("interval: !!int abc\n", "agent.yaml:1: interval must be a duration from 1s to 3600s, not 'abc'"),
        ("interval: fast\n", "agent.yaml:1: interval must be a duration from 1s to 3600s, not 'fast'"),
        ("\nweb:\n  max_connections: 1\n", "agent.yaml:3: web.max_connections must be a whole number from 4 to 4096"),
        ("web: {max_connections: 4097}\n", "web.max_connections must be a whole number from 4 to 4096, not '4097'"),
        ("interval: 3601s\n", "interval must be a duration from 1s to 3600s, not '3601s'"),
        ("overhead: {max_cpu_percent: 101}\n", "overhead.max_cpu_percent must be a percentage from 0.01 to 100"),
        ("web: 5\n", "agent.yaml:1: web must hold keys and values"),
        ("- a\n", "agent.yaml:1: the file must hold keys and values"),
        ("interval: 5s\ninterval: 6s\n", "agent.yaml:2: interval is given twice, first in line 1"),
        ("interval: [\n", "agent.yaml:2: not YAML"),
        ("interval: true\n", "interval must be a duration"),
        ("listen: 9746\n", "listen must be HOST:PORT with a port up to 65535, not '9746'"),
        ("listen: '::1:80'\n", "listen must be HOST:PORT"),
        ("listen: 'a:70000'\n", "listen must be HOST:PORT"),
        ("metrics: {labels: [node]}\n", "metrics.labels must be a list of namespace, pod, container, not ['node']"),
        ("metrics: {created: 2}\n", "metrics.created must be true or false"),
        ("otlp: {headers: [a]}\n", "otlp.headers must be names and texts"),
        ("otlp: {endpoint: collector:4318}\n", "otlp.endpoint must be an http:// or https:// URL"),
        ("otlp: {endpoint: 'ftp://collector'}\n", "otlp.endpoint must be an http:// or https:// URL"),
        ("otlp: {endpoint: 'http://'}\n", "otlp.endpoint must be an http:// or https:// URL"),
        ("otlp: {endpoint: 'http://[::1'}\n", "otlp.endpoint must be an http:// or https:// URL"),
        ("otlp: {endpoint: 'http://a:99999'}\n", "otlp.endpoint must be an http:// or https:// URL"),
        ("log: {level: loud}\n", "log.level must be one of debug, info, warning, error"),
        ("interval: !!python/object:os.system x\n", "not YAML"),
        ("interval: &a [*a]\n", "agent.yaml:1: a reference (*) to another value: write that out"),
        ("interval: 1:30\n", "agent.yaml:1: interval must be a duration from 1s to 3600s, not '1:30'"),
        ("web: {max_connections: 010}\n", "web.max_connections must be a whole number from 4 to 4096, not '010'"),
        ("web:\n  timeout: 5s\nweb.timeout: 6s\n", "agent.yaml:3: web.timeout is given twice, first in line 2"),
        ("web.timeout: 5s\nweb:\n  timeout: 6s\n", "agent.yaml:3: web.timeout is given twice, first in line 1"),
        ("interval: 5s\nINTERVAL: 6s\n", "agent.yaml:2: INTERVAL is given twice, first in line 1"),
        ("WEB: {timeout: 5s}\nweb: {timeout: 6s}\n", "agent.yaml:2: web is given twice, first in line 1"),
        ("interval: 2001-13-45\n", "agent.yaml:1: interval must be a duration from 1s to 3600s, not '2001-13-45'"),
    ],
)
def test_a_wrong_value_is_named_with_file_line_and_path(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        load(_file(tmp_path, body), {}, [])
    assert message in str(raised.value)


def test_a_path_with_a_nul_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="a path cannot have a NUL in it"):
        yaml_file.read_whole(Path("a\0b"), "settings", 1)


def test_a_wrong_variable_or_flag_is_named() -> None:
    with pytest.raises(InputError, match=r"environment NUMAUDIT_LOG_FORMAT: log.format must be one of text, json"):
        load(None, {"NUMAUDIT_LOG_FORMAT": "xml"}, [])
    with pytest.raises(InputError, match=r"--set: there is no setting web.time_out; did you mean web.timeout\?"):
        load(None, {}, [("--set", "web.time_out", "1s")])


@pytest.mark.parametrize(
    "body",
    [
        "otlp: {endpoint: 'ftp://user:pa55@collector'}\n",
        "otlp: {endpoint: 'http://user:pa55/1@collector'}\n",
        "kubelet: {url: 'http://user:pa55@kubelet:99999'}\n",
        "kubelet: {url: 'ftp://me:pa55@node'}\n",
        "otlp: {headers: [pa55]}\n",
        "interval: http://user:pa55@collector\n",
    ],
)
def test_a_secret_in_a_wrong_value_is_not_shown(tmp_path: Path, body: str) -> None:
    with pytest.raises(InputError, match=r"agent\.yaml:1: .* must be") as raised:
        load(_file(tmp_path, body), {}, [])
    assert "pa55" not in str(raised.value)
    assert "hidden" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ("intervall: 5s\n", "agent.yaml:1: there is no setting intervall; did you mean interval?; it is ignored"),
        ("web:\n  timeot: 5s\n", "agent.yaml:2: there is no setting web.timeot; did you mean web.timeout?"),
        ("max_series: 5\n", "there is no setting max_series; did you mean metrics.max_series?"),
        ("Interval: 5s\n", "there is no setting Interval; did you mean interval?; it is ignored"),
        ("kind: KubeletConfiguration\n", "agent.yaml:1: there is no setting kind; it is ignored"),
    ],
)
def test_an_unknown_key_is_a_warning_with_a_suggestion(tmp_path: Path, body: str, warning: str) -> None:
    loaded = load(_file(tmp_path, body), {}, [])
    assert loaded.settings == Settings()
    (found,) = loaded.warnings
    assert warning in found


@pytest.mark.parametrize("body", ["", "# nothing\n", "interval:\nweb:\n"])
def test_an_empty_file_section_or_value_changes_nothing(tmp_path: Path, body: str) -> None:
    loaded = load(_file(tmp_path, body), {}, [])
    assert loaded.settings == Settings()
    assert loaded.warnings == ()


def test_numbers_that_people_and_yaml_read_alike_are_taken(tmp_path: Path) -> None:
    body = "interval: 2.5\nverdicts: {spilled_percent: 1e-1, cpu_remote_percent: .5}\nmetrics: {max_ended: 0}\n"
    settings = load(_file(tmp_path, body), {}, []).settings
    assert (settings.interval, settings.metrics.max_ended) == (2.5, 0)
    assert (settings.verdicts.spilled_percent, settings.verdicts.cpu_remote_percent) == (0.1, 0.5)


def test_an_empty_list_of_probes_means_none(tmp_path: Path) -> None:
    assert load(_file(tmp_path, "probes: []\n"), {}, []).settings.probes == ()
    assert load(None, {"NUMAUDIT_PROBES": ""}, []).settings.probes == ()


def test_a_check_finds_every_mistake_in_every_source(tmp_path: Path) -> None:
    path = _file(tmp_path, "interval: fast\nintervall: 5s\nweb:\n  timeout: soon\nlog: 5\n")
    found = check(path, {"NUMAUDIT_LOG_LEVEL": "loud", "NUMAUDIT_XYZZY": "1"}, [("--set", "web.x", "1")])
    assert [one.removeprefix(f"{path}:").partition(" must")[0].partition(";")[0] for one in found] == [
        "1: interval",
        "4: web.timeout",
        "5: log",
        "environment NUMAUDIT_LOG_LEVEL: log.level",
        "--set: there is no setting web.x",
        "2: there is no setting intervall",
        "there is no variable NUMAUDIT_XYZZY",
    ]
    assert check(None, {}, []) == ()


def test_the_password_of_a_url_is_not_shown() -> None:
    url = KEYS["kubelet.url"].kind
    assert url.show(url.parse("https://me:geheim@node:10250")) == "https://(hidden)@node:10250"


def test_a_reload_changes_what_a_running_agent_can_change_and_names_the_rest() -> None:
    now = load(None, {}, [("--set", "otlp.timeout", "5s")])
    new = load(None, {"NUMAUDIT_INTERVAL": "30s", "NUMAUDIT_LISTEN": ":1", "NUMAUDIT_PROBES": ""}, [])
    outcome = reloaded(now, new)
    assert (outcome.changed, outcome.waiting) == (("interval",), ("listen", "probes", "otlp.timeout"))
    assert outcome.loaded.settings == load(None, {}, [("", "otlp.timeout", "5s"), ("", "interval", "30s")]).settings
    assert outcome.loaded.origins["interval"] == "environment NUMAUDIT_INTERVAL"
    assert outcome.loaded.origins["listen"] == "default"
    assert reloaded(outcome.loaded, new).changed == ()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the settings .*none.yaml: No such file"):
        load(tmp_path / "none.yaml", {}, [])


def test_every_setting_can_be_given_as_text_as_it_is_shown() -> None:
    for key in KEYS.values():
        shown = key.kind.show(key.default)
        loaded = load(None, {key.variable: shown}, [])
        assert loaded.values[key.path] == key.default, key.path


def test_a_mapping_is_read_from_one_line_and_from_yaml(tmp_path: Path) -> None:
    path = _file(tmp_path, "otlp:\n  headers: {Authorization: Bearer x, n: 1:30}\n")
    assert load(path, {}, []).settings.otlp.headers == (("Authorization", "Bearer x"), ("n", "1:30"))
    variables = {"NUMAUDIT_OTLP_HEADERS": "Authorization=Bearer x=, n=5"}
    assert load(None, variables, []).settings.otlp.headers == (("Authorization", "Bearer x="), ("n", "5"))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_any_text_is_settings_or_an_input_error(tmp_path_factory: pytest.TempPathFactory, body: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(body, encoding="utf-8")
    try:
        load(path, {}, [])
    except InputError as error:
        assert str(path) in str(error)


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=20))
def test_any_text_for_a_setting_is_a_value_or_an_input_error(path: str, given_text: str) -> None:
    try:
        value = load(None, {}, [("--set", path, given_text)]).values[path]
    except InputError as error:
        assert path in str(error)
    else:
        kind = KEYS[path].kind
        assert kind.parse(kind.show(value)) == value


@pytest.mark.parametrize(("text", "value"), [("2", 2.0), ("0.5%", 0.5), ("100", 100.0)])
def test_the_overhead_is_a_percentage(text: str, value: float) -> None:
    assert KEYS["overhead.max_cpu_percent"].kind.parse(text) == value


@pytest.mark.parametrize("text", ["0", "101", "-1", "much", "nan", "true"])
def test_any_other_overhead_is_wrong(text: object) -> None:
    with pytest.raises(ValueError):
        KEYS["overhead.max_cpu_percent"].kind.parse(text)


def test_the_limits_of_verdicts_are_the_defaults_until_they_are_set() -> None:
    assert load(None, {}, ()).settings.verdicts.thresholds == DEFAULT
    flags = (("--set", "verdicts.cpu_remote_percent", "20"), ("--set", "verdicts.spilled_bytes", "0"))
    limits = load(None, {}, flags).settings.verdicts.thresholds
    assert (limits.cpu_remote_share, limits.spilled_bytes) == (0.2, 0)
    assert load(None, {}, (("--set", "verdicts.window", "30m"),)).settings.verdicts.thresholds.window == 1800


def test_the_kubelets_log_is_read_where_the_settings_say(tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text("")
    observer = Observer.of(Host(connection=KubeletConnection(log_file=log)))
    assert str(log) in repr(observer.collectors.kubelet.poller.log)
