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
from numaudit.kubelet.parsers.cdi import LARGEST_SPEC, CdiDevice, parse, without_secrets
from numaudit.kubelet.sources import cdi_files
from numaudit.kubelet.sources.cdi_files import CdiFiles, CdiSpecs
from processes.input_cost import MIB, costs

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


def test_a_specification_in_yaml_is_read_with_its_device_files() -> None:
    assert parse(YAML.encode(), "a.yaml") == (CdiDevice(NAME, (ENV,), ("/dev/vfio/7", "/dev/y")),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.json: not JSON"),
        (SPEC[:50], "a.json: not JSON"),
        ("[]", "a.json: expected an object"),
        ("{}", "a.json: kind is missing or no text"),
        ('{"kind": "cpu", "cdiVersion": "1"}', "kind 'cpu' is not vendor/class"),
        ('{"kind": "a/b"}', "cdiVersion is missing"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": {}}', "devices: expected a list"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [5]}', r"devices\[0\]: expected an object"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "../x"}]}', "is not the name of a CDI device"),
        ('{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "x"}, {"name": "x"}]}', "is given twice"),
        (
            '{"kind": "a/b", "cdiVersion": "1", "devices": [{"name": "x", "containerEdits": {"env": [5]}}]}',
            "env: expected texts",
        ),
        ("[" * 40_000, "a.json: not JSON"),
        ("[" * 60_000, "more than 50000 values"),
        (" " * (LARGEST_SPEC + 1), f"more than {LARGEST_SPEC} bytes"),
    ],
)  # fmt: skip
def test_what_is_no_specification_is_named(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
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
    (host.root / "var/run/cdi/bytes.yaml").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(host.root / "var/run/cdi/pipe.json")
    (host.root / "var/run/cdi/loop.json").symlink_to("loop.json")
    (host.root / "var/run/cdi/gone.json").symlink_to("nowhere")
    found = read(host)
    assert list(found.devices) == [NAME]
    assert [one.partition(":")[0] for one in found.problems] == [
        "cannot read /var/run/cdi/loop.json",
        "/var/run/cdi/bytes.yaml",
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


def test_the_number_of_files_and_their_bytes_are_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write(host, f"{number}.json", SPEC.replace("claim-", f"c{number}-"))
    monkeypatch.setattr(cdi_files, "MOST_FILES", 2)
    found = read(host)
    assert (len(found.devices), found.problems) == (
        2,
        ("more than 2 files in /var/run/cdi: the others are not read",),
    )
    monkeypatch.undo()
    monkeypatch.setattr(cdi_files, "MOST_BYTES", len(SPEC) * 2)
    assert len(read(host).devices) == 2


def spec_of(devices: int, prefix: str) -> str:
    names = ",".join(f'{{"name":"{prefix}{number}"}}' for number in range(devices))
    return f'{{"cdiVersion":"0.8.0","kind":"a.b/c","devices":[{names}]}}'


@pytest.mark.parametrize(("last", "kept"), [(5_000, 20_000), (5_001, 15_000)])
def test_the_devices_of_all_files_are_bounded(host: Host, last: int, kept: int) -> None:
    for number, count in enumerate((10_000, 5_000, last)):
        write(host, f"{number}.json", spec_of(count, f"d{number}-"))
    found = read(host)
    assert len(found.devices) == kept
    said = ("more than 20000 CDI devices: 2.json and others are not read",)
    assert found.problems == (() if kept == 20_000 else said)


def test_nothing_is_read_or_merged_again_while_no_file_changes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    write(host, "a.json", SPEC)
    write(host, "broken.json", "{")
    files = CdiFiles(host)
    first = files.read()
    assert files.read() is first
    write(host, "a.json", SPEC.replace("claim-", "other-"))
    assert list(files.read().devices) == [NAME.replace("claim-", "other-")]


def read_of(root: bytes) -> object:
    return read(Host.under(Path(root.decode())))


def test_files_within_the_limits_take_bounded_memory(host: Host) -> None:
    for number in range(32):
        write(host, f"{number}.json", spec_of(14_000, f"d{number}-"))
    (cost,) = costs(read_of, {"32 files": str(host.root).encode()}).values()
    assert cost.memory < 64 * MIB


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
