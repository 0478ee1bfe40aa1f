"""What a file may cost: memory and time in proportion to its size, whatever it is made of."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numaudit.cli.main import call
from numaudit.config import yaml_document
from numaudit.config.loading import check, load
from numaudit.config.yaml_document import LIMITS
from numaudit.config.yaml_file import SETTINGS
from numaudit.daemon.web.rules import read_rules
from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError
from processes.input_cost import MOST, costs

PIECES = {
    "short values": "a,",
    "numbers": "1234567,",
    "empty lists": "[],",
    "empty mappings": "{},",
    "pairs": "{a: b},",
    "long text": f"'{'x' * 1000}',",
    "escapes": f'"{chr(92)}n",',
    "dates": "2026-01-01,",
}
PIECES_OF_MANY_LINES = {"line ends": "\n", "comments": "#\n"}


def _body(piece: str, size: int) -> str:
    many = piece * (size // len(piece))
    return many if piece.endswith("\n") else f"[{many}a]"


def _read(body: bytes) -> object:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        return yaml_document.read(Path(file.name), "the scenario")


def test_the_largest_files_take_ten_times_their_limit_of_memory_at_most() -> None:
    costly = ("short values", "empty mappings", "long text")
    pieces = {name: PIECES[name] for name in costly} | PIECES_OF_MANY_LINES
    found = costs(_read, {name: _body(piece, LIMITS.size - 10).encode() for name, piece in pieces.items()})
    assert {name: one.memory for name, one in found.items() if one.memory >= MOST * LIMITS.size} == {}
    refusals = [one.refusal for one in found.values() if one.refusal]
    assert all("keys and values" in refusal or "is empty" in refusal for refusal in refusals)
    assert len(refusals) > len(found) / 2


def test_settings_of_too_many_values_are_refused_before_they_are_compared_with_names(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("".join(f"k{number}: 1\n" for number in range(SETTINGS.values)))
    with pytest.raises(InputError, match="there are more than 3500 keys and values"):
        read_rules(path)
    (problem,) = check(path, {}, [])
    assert "there are more than 3500 keys and values" in problem


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False) | st.dates()
KEYS = st.text(st.sampled_from("ab.[0]"), min_size=1, max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@given(VALUES, st.booleans())
def test_any_document_is_read_as_yaml_reads_it(
    tmp_path_factory: pytest.TempPathFactory, value: object, flow: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "file.yaml"
    path.write_text(yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True), encoding="utf-8")
    if value is None or "&id" in path.read_text(encoding="utf-8"):
        return
    assert yaml_document.read(path, "the scenario").value == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_a_place_has_the_line_of_its_key_or_of_what_is_around_it(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("a:\n  b.c: 1\n  d:\n  - e: 2\n  - f:\n      g: 3\n'[0]': x\n'': y\n")
    line_of = yaml_document.read(path, "the scenario").line_of
    places = {
        "": 1,
        "a": 1,
        "a.b.c": 2,
        "a.d": 3,
        "a.d[0]": 4,
        "a.d[1].f.g": 6,
        "a.d[1].f.h": 5,
        "a.x": 1,
        "[0]": 7,
        "z": 1,
    }
    assert {place: line_of(place) for place in places} == places


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", ":2: a is given twice, first in line 1"),
        ("{1: a, 0x1: b, 1: c}", ":1: 1 is given twice"),
        ("a: {<<: 1}", ":1: a merge (<<) takes a mapping, or a list of mappings"),
        ("{<<: {a: 1}, <<: {b: 1}}", ":1: << is given twice"),
        ("a: b\nc: *d", ":2: a reference (*) to a value that no anchor (&) before it names"),
        ("a: &a [*a]", ":1: a reference (*) to a value that no anchor (&) before it names, that it is part of"),
        ("a: !!set {b}", ":1: not YAML: a value has a tag"),
        ("a: !b c", ":1: not YAML: a value has a tag"),
        ("[a]: b", ":1: a key must be text"),
        ("a\n---\nb", "another document begins"),
        ("# nothing", "it is empty"),
        ("a: 2026-99-99", ":1: not YAML: a number or date cannot be read; quote it if it is text"),
    ],
)
def test_what_is_no_plain_document_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(InputError) as refusal:
        yaml_document.read(tmp_path / "file.yaml", "the scenario")
    assert message in str(refusal.value)


def test_a_pod_of_too_many_containers_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:

    machine, kubelet, pod = tmp_path / "machine.yaml", tmp_path / "config.yaml", tmp_path / "pod.yaml"
    machine.write_text("nodes: [{id: 0, cpus: 0-7, memory: 64Gi}]\n")
    kubelet.write_text("{}\n")
    pod.write_text(
        "metadata: {name: p}\nspec:\n  containers:\n" + "".join(f"  - {{name: c{n}}}\n" for n in range(1001))
    )
    assert call(["fit", "-f", str(pod), "--node", str(tmp_path)]) == 2
    assert "pod.yaml:3: spec.containers: at most 1000 containers can be simulated, not 1001" in capsys.readouterr().err


def test_references_and_merges_are_read_as_what_they_stand_for(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(
        "a: &a {x: 1, y: [2]}\n"
        "b: *a\n"
        "c: {<<: *a, x: 3}\n"
        "d: {<<: [{x: 4}, *a], z: '<<'}\n"
        "e: [&t text, *t, &n {of: &m [5]}, *n, *m]\n"
        "'<<': <\n"
    )
    document = yaml_document.read(tmp_path / "file.yaml", "the scenario")
    assert document.value == {
        "a": {"x": 1, "y": [2]},
        "b": {"x": 1, "y": [2]},
        "c": {"x": 3, "y": [2]},
        "d": {"x": 4, "y": [2], "z": "<<"},
        "e": ["text", "text", {"of": [5]}, {"of": [5]}, [5]],
        "<<": "<",
    }
    assert [document.line_of(place) for place in ("b", "d.z", "e[4]")] == [2, 4, 5]


def test_an_anchor_is_forgotten_where_its_document_ends(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text("a: &a 1\n---\nb: *a\n")
    with pytest.raises(InputError, match=r":3: a reference \(\*\)"):
        yaml_document.read_all(tmp_path / "file.yaml", "the pod")


def test_references_to_references_cost_no_more_than_plain_values() -> None:
    depth = range(1, LIMITS.levels - 5)
    doubled = "a0: &a0 [x]\n" + "\n".join(f"a{one}: &a{one} [{','.join([f'*a{one - 1}'] * 10)}]" for one in depth)
    nested = "".join(f"&a{one} [" for one in depth) + "a," * (LIMITS.size // 2 - 1000)
    found = costs(_read, {"doubled": doubled.encode(), "nested": nested.encode(), "many": b"&a 1," * 20_000 + b"*a"})
    assert "of more than" in found["doubled"].refusal
    assert {name: one.memory for name, one in found.items() if one.memory >= MOST * LIMITS.size} == {}


def test_as_many_values_may_be_copied_as_the_limit_says() -> None:
    body = b"a: &a [1, 2]\nb: *a\nc: *a\n"
    taken = len(b"[12]") * 3
    assert yaml_values.read(body, "file", YamlLimits(99, 99, 9, taken)) == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    with pytest.raises(InputError, match=f":3: a reference .* more than {taken - 1} in all"):
        yaml_values.read(body, "file", YamlLimits(99, 99, 9, taken - 1))


def _bomb() -> str:
    """Ten references to ten references to ...: 10 ** 30 values in some 2 KiB."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{one}: &a{one} [{','.join([f'*a{one - 1}'] * 10)}]" for one in range(1, 31)]
    return "\n".join([*lines, "probes: *a30"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_bomb(), "file.yaml:2: a reference (*) to another value: write that out"),
        ("a: &a [*a]", "file.yaml:1: a reference (*) to another value: write that out"),
        ("[" * 200_000, "file.yaml:1: nested deeper than 20 levels"),
        ("{a: " * 21, "file.yaml:1: nested deeper than 20 levels"),
        ("#" * (2 << 20), "the file is larger than 262144 bytes"),
    ],
)
def test_a_file_that_asks_for_too_much_is_refused(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(body, encoding="utf-8")
    for read in (lambda: load(path, {}, []), lambda: read_rules(path)):
        with pytest.raises(InputError) as raised:
            read()
        assert message in str(raised.value)


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"cannot read the settings .*/pipe: it is a pipe; give a file"):
        load(path, {}, [])
