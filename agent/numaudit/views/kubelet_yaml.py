"""Settings of a kubelet as YAML, with the reason for each line as a comment above it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import yaml

from numaudit.errors import printable
from numaudit.evaluation.setup.kubelet_config import KubeletSetting, KubeletSettings

_WIDTH = 100
_PLAIN = re.compile(r"(?!(?:true|false)$)[A-Za-z][A-Za-z0-9./-]*|[0-9]+[KMGTPE]i", re.ASCII)
"""Texts that are texts to each reader of YAML, if they are to PyYAML: to some, 1e3 is a number."""
_APPLY = (
    "To apply them: drain the node, stop the kubelet, put these fields in the place of its own, delete "
    "memory_manager_state and cpu_manager_state below /var/lib/kubelet, start the kubelet, and uncordon the node.",
    "Then `numaudit state verify` checks the kubelet's new files, and `numaudit forecast` shows its next restart.",
)


class _Dumper(yaml.SafeDumper):
    """Quotes texts that another reader may take for numbers."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _PLAIN.fullmatch(value) else '"')


_Dumper.add_representer(str, _text)


def to_yaml(found: KubeletSettings) -> str:
    """One document: a head that says what was not known, the fields, and how to apply them."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: KubeletSettings) -> Iterator[str]:
    version = f"{found.version[0]}.{found.version[1]}"
    yield from _comment(f"Settings for this machine; by numaudit's rules, a kubelet {version} starts with them.")
    for note in found.notes:
        yield from _comment(note)
    reasons = {one.name: one for one in found.settings}
    for name, value in found.document.items():
        setting = reasons.get(name)
        if setting is None:
            yield from _fields({name: value})
            continue
        yield from ("", *_comment(setting.reason))
        yield from _items(setting) if setting.of_items else _fields({name: value})
    yield ""
    for text in _APPLY:
        yield from _comment(text)


def _items(setting: KubeletSetting) -> Iterator[str]:
    yield f"{setting.name}:"
    assert isinstance(setting.value, list)
    for item, reason in zip(setting.value, setting.of_items, strict=True):
        yield from _comment(reason, "  ") if reason else ()
        yield from (f"  {line}" for line in _fields([item]))


def _fields(value: object) -> list[str]:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10_000).splitlines()


def _comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(text), _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
