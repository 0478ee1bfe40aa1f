"""CDI specifications: read in JSON and YAML, within limits, and passed over with a reason where they cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kubelet.intent.drivers import DRIVERS, Promised, promised
from numaudit.kubelet.sources.cdi_files import LARGEST_SPEC, CdiDevice, CdiFiles, CdiSpecs, parse, without_secrets

UID = "7d1f0c52-5b8e-4f0a-9a53-2f6f3b0f0a11"
NAME = f"dra.k8s.io/cpu=claim-{UID}"
ENV = f"DRA_CPUSET_{UID}=10-14,26-30"
SPEC = (
    f'{{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{{"name":"claim-{UID}",'
    f'"containerEdits":{{"env":["{ENV}"]}}}}],"containerEdits":{{}}}}'
)
YAML = f"""
cdiVersion: 0.8.0
kind: dra.k8s.io/cpu
devices:
  - name: claim-{UID}
    containerEdits:
      env: ["{ENV}"]
      deviceNodes: [{{path: /dev/vfio/7, type: c}}, {{path: /dev/x, hostPath: /dev/y}}]
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "proc").mkdir()
    (tmp_path / "var/run/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi").mkdir(parents=True)
    return Host.under(tmp_path)


def write(host: Host, name: str, text: str, folder: str = "var/run/cdi") -> Path:
    path = host.root / folder / name
    path.write_text(text)
    return path


def read(host: Host) -> CdiSpecs:
    return CdiFiles(host).read()


def test_a_specification_in_json_is_read() -> None:
    assert parse(SPEC.encode(), "a.json") == (CdiDevice(NAME, (ENV,)),)


def test_a_specification_in_yaml_is_read() -> None:
    assert parse(YAML.encode(), "a.yaml") == (CdiDevice(NAME, (ENV,)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Input data was truncated"),
        (SPEC[:50], "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `kind`"),
        ('{"kind": "cpu", "cdiVersion": "1"}', r"matching regex .* at `\$\.kind`"),
        ('{"kind": "a/b"}', "missing required field `cdiVersion`"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": {}}', r"`array \| null`, got `object` - at `\$\.devices`"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [5]}', r"Expected `object`, got `int` - at `\$\.devices\["),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "../x"}]}', r"regex .* at `\$\.devices\[.*\.name`"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "x"}, {"name": "x"}]}', "device 'x' is given twice"),
        (
            '{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "x", "containerEdits": {"env": [5]}}]}',
            "Expected `str`, got `int`",
        ),
        ('{"x": ' + "[" * 40_000, "no specification of CDI devices: "),
    ],
)  # fmt: skip
def test_what_is_no_specification_is_named(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=f"a.json: .*{message}"):
        parse(text.encode(), "a.json")


@pytest.mark.parametrize(
    "text",
    ["a: &x [1]\nb: *x\n", "kind: !!python/object:os.system {}\n", "- " * 40_000, "{" * 200, "kind: a\nkind: b\n"],
    ids=["reference", "tag", "many", "deep", "twice"],
)
def test_hostile_yaml_is_refused_soon(text: str) -> None:
    began = process_time()
    with pytest.raises(ParseError, match=r"a\.yaml"):
        parse(text.encode(), "a.yaml")
    assert process_time() - began < 3


def test_the_later_directory_wins(host: Host) -> None:
    write(host, "static.json", SPEC.replace("10-14,26-30", "0"), "etc/cdi")
    write(host, "dynamic.json", SPEC)
    found = read(host)
    assert (found.devices[NAME].env, found.conflicts, found.problems) == ((ENV,), {}, ())


def test_two_files_of_one_directory_with_one_device_conflict(host: Host) -> None:
    for name in ("a.json", "b.json"):
        write(host, name, SPEC, "etc/cdi")
    assert read(host).conflicts == {NAME: ("/etc/cdi/a.json", "/etc/cdi/b.json")}
    write(host, "dynamic.json", SPEC)
    assert read(host).conflicts == {}


def test_other_files_and_those_that_are_being_written_are_left_alone(host: Host) -> None:
    for name in (".tmp.json", "README", "a.json.tmp"):
        write(host, name, SPEC)
    (host.root / "var/run/cdi/folder.json").mkdir()
    found = read(host)
    assert found.devices == {}
    assert [one.partition(":")[0] for one in found.problems] == ["cannot read /var/run/cdi/folder.json"]


def test_a_broken_file_is_named_and_ends_nothing(host: Host) -> None:
    write(host, "whole.json", SPEC)
    write(host, "torn.json", SPEC[:80])
    write(host, "large.json", SPEC.replace("claim-", "large-").ljust(LARGEST_SPEC))
    write(host, "larger.json", SPEC.ljust(LARGEST_SPEC + 1))
    (host.root / "var/run/cdi/bytes.yaml").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(host.root / "var/run/cdi/pipe.json")
    (host.root / "var/run/cdi/loop.json").symlink_to("loop.json")
    (host.root / "var/run/cdi/gone.json").symlink_to("nowhere")
    found = read(host)
    assert list(found.devices) == [NAME.replace("claim-", "large-"), NAME]
    assert [one.partition(":")[0] for one in found.problems] == [
        "cannot read /var/run/cdi/loop.json",
        "/var/run/cdi/bytes.yaml",
        "cannot read /var/run/cdi/larger.json",
        "/var/run/cdi/pipe.json",
        "/var/run/cdi/torn.json",
    ]


def test_a_foreign_file_with_other_letters_does_no_harm(host: Host) -> None:
    write(host, "other.json", json.dumps({"cdiVersion": "1", "kind": "größe/gerät", "devices": []}))
    write(host, "mine.json", SPEC)
    found = read(host)
    assert (list(found.devices), len(found.problems)) == ([NAME], 1)


def test_a_changed_file_is_read_again_and_one_that_went_is_forgotten(host: Host) -> None:
    files = CdiFiles(host)
    path = write(host, "a.json", SPEC)
    assert files.read().devices[NAME].env == (ENV,)
    other = write(host, ".new", SPEC.replace("10-14,26-30", "1-2"))
    other.rename(path)
    assert files.read().devices[NAME].env == (f"DRA_CPUSET_{UID}=1-2",)
    path.unlink()
    assert files.read().devices == {}


def test_nothing_is_read_or_merged_again_while_no_file_changes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    write(host, "a.json", SPEC)
    write(host, "broken.json", "{")
    files = CdiFiles(host)
    first = files.read()
    assert files.read() is first
    write(host, "a.json", SPEC.replace("claim-", "other-"))
    assert list(files.read().devices) == [NAME.replace("claim-", "other-")]


def test_a_node_without_directories_has_no_specifications(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert read(Host.under(tmp_path)) == CdiSpecs()


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda one: f"{one.name} {one.format}")
def test_each_row_of_the_table_reads_its_drivers_environment(driver: object) -> None:
    row = next(one for one in DRIVERS if one is driver)
    made = {
        "dra.cpu": ("dra.k8s.io/cpu=claim-u", ["DRA_CPUSET_u=1-2"]),
        "dra.memory": (
            "dra.k8s.io/memory=claim-u",
            ["DRAMEMORY_u_NUMANodes=1", "DRAMEMORY_u_memory=numanode:1,size:1Gi"],
        ),
    }
    found = promised(row.name, "u", [made[row.name]] if row.name in made else [])
    assert (found == Promised()) == (row.kind is None)


def test_a_capture_keeps_only_the_variables_that_are_read() -> None:
    kept = without_secrets(SPEC.replace('"DRA_', '"SECRET=1","DRA_', 1).encode(), "a.json")
    assert b"SECRET" not in kept
    assert parse(kept, "a.json") == parse(SPEC.encode(), "a.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "cdiVersion", "devices", "name", "containerEdits", "env", "deviceNodes", "path"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(values)
def test_any_document_is_read_or_refused_with_a_reason(value: object) -> None:
    for name in ("a.json", "a.yaml"):
        try:
            assert isinstance(parse(json.dumps(value).encode(), name), tuple)
        except ParseError as error:
            assert name in str(error)


@given(st.binary(max_size=60), st.integers(0, len(SPEC)), st.integers(0, 30), st.sampled_from(["a.json", "a.yaml"]))
def test_any_damage_to_a_specification_is_survived(inserted: bytes, at: int, removed: int, name: str) -> None:
    whole = SPEC.encode()
    try:
        found = parse(whole[:at] + inserted + whole[at + removed :], name)
    except ParseError:
        return
    for device in found:
        try:
            promised("dra.cpu", UID, [(device.name, device.env)])
        except ParseError as error:
            assert str(error)


@given(st.sampled_from(["dra.cpu", "dra.memory"]), st.lists(st.text(max_size=30), max_size=3))
def test_any_environment_is_read_or_refused(driver: str, env: list[str]) -> None:
    kind = "dra.k8s.io/cpu" if driver == "dra.cpu" else "dra.k8s.io/memory"
    prefixed = [f"{prefix}{one}" for prefix in ("DRA_CPUSET_u", "DRAMEMORY_u_", "") for one in env]
    try:
        promised(driver, "u", [(f"{kind}=claim-u", prefixed)])
    except ParseError as error:
        assert str(error)
