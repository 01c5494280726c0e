"""Strict settings from YAML: an error names file, line, setting and remedy."""

import dataclasses
import json
import re
import reprlib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser
from yaml.resolver import Resolver

from pcqc_base.errors import UserError, nearest, printable

T = TypeVar("T")

_KINDS = ("null", "bool", "int", "float", "str", "seq", "map", "merge")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}
_MOST_NODES = 20_000
_MOST_BYTES = 1_000_000
_DEEPEST = 100  # levels; JSON and Python allow a thousand, which aliases and callers share


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """Loads only what JSON can hold too, and refuses duplicate keys.

    libyaml parses: PyYAML's own parser takes as long as all else that loads a study.
    """

    # A date stays the string that it is written as.
    yaml_implicit_resolvers: typing.ClassVar = {
        first: [(tag, pattern) for tag, pattern in rules if tag in _TAGS]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str):
        CParser.__init__(self, text)
        for part in (Composer, SafeConstructor, Resolver):
            part.__init__(self)
        self.level = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        target = self.anchors.get(event.anchor) if isinstance(event, yaml.AliasEvent) else None
        if target and not hasattr(target, "size"):  # which a node gets when it is complete
            raise _refused(event, f"'*{event.anchor}' contains itself; write the values out")
        self.level += 1
        if self.level > _DEEPEST:
            raise _refused(event, "nested too deeply")
        node = super().compose_node(parent, index)
        self.level -= 1
        if node.tag not in _TAGS:
            raise _refused(node, f"the tag '{node.tag}' is not for settings; remove it")
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        node.depth = 1 + max((part.depth for part in parts), default=0)
        if node.depth > _DEEPEST:
            raise _refused(node, "nested too deeply")
        node.size = 1 + sum(part.size for part in parts)
        if node.size > _MOST_NODES:
            raise _refused(node, f"more than {_MOST_NODES} values; write fewer")
        return node

    def construct_object(self, node, deep=False):
        try:
            value = super().construct_object(node, deep)
        except (ValueError, LookupError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            raise _refused(node, f"{_short(node.value)} cannot be read as {kind}") from None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise _refused(node, "an integer of more than 64 bits; write a smaller one")
        return value

    def construct_mapping(self, node, deep=False):
        keys = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _refused(
                    key_node, f"the name {_short(key)} is not a string; put it in quotes"
                )
            if key in keys:
                raise _refused(key_node, f"duplicate key {_short(key)}; keep one")
            keys.add(key)
        return super().construct_mapping(node, deep)


def _refused(node: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


@dataclasses.dataclass(frozen=True)
class SettingsFile:
    """A YAML mapping, and the lines on which its values stand."""

    path: Path
    text: str
    data: dict
    node: yaml.MappingNode

    def find(self, place: tuple) -> tuple[int, int]:
        """How many parts of the place exist in the file, and the line of the last of them."""
        node, line = self.node, 1
        for depth, part in enumerate(place):
            if isinstance(node, yaml.MappingNode):
                matches = [(k, v) for k, v in node.value if k.value == part]
            else:
                items = node.value if isinstance(node, yaml.SequenceNode) else []
                matches = [(v, v) for v in items[part:][:1]] if isinstance(part, int) else []
            if not matches:
                return depth, line
            key, node = matches[-1]
            line = _line(self.text, key.start_mark.index)
        return len(place), line

    def error(self, place: tuple, problem: str) -> UserError:
        """`FILE:LINE: PLACE: PROBLEM`; a problem may quote what the file says."""
        parts = "".join(f"[{p}]" if isinstance(p, int) else f".{_plain(p)}" for p in place)
        problem = printable(problem, keep="")
        return UserError(f"{self.path}:{self.find(place)[1]}: {parts[1:]}: {problem}")


def read_settings(path: Path, empty: bool = False) -> SettingsFile:
    """Read a YAML mapping.

    Args:
        path: of the file.
        empty: whether it may hold none.

    Raises:
        UserError: the file is missing, is no YAML, or is no mapping; names file and line.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); name a settings file"
        ) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8; save the file in UTF-8") from None
    if len(content) > _MOST_BYTES:
        raise UserError(f"{path}: larger than 1 MB; name a settings file")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = loader.construct_document(node) if node else {} if empty else None
    except yaml.YAMLError as error:
        line, problem = _line_and_problem(text, error)
        raise UserError(f"{path}:{line}: {problem}; fix the file") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}:1: must hold settings as `name: value`; fix the file")
    return SettingsFile(path, text, data, node)


def _line(text: str, index: int) -> int:
    """The line of a character, as editors count; libyaml also counts other breaks than these."""
    return text.count("\n", 0, index) + 1


def _line_and_problem(text: str, error: yaml.YAMLError) -> tuple[int, str]:
    """Where a text is no YAML, and why."""
    if isinstance(error, yaml.reader.ReaderError):  # it counts bytes
        return text.encode()[: error.position].count(b"\n") + 1, error.reason
    assert isinstance(error, yaml.MarkedYAMLError)
    index, problem = error.problem_mark.index, error.problem
    if problem.startswith("found character that"):
        problem = problem.replace("character", f"character {text[index]!r}")
    return _line(text, index), problem


def build(kind: type[T], data: dict, error: typing.Callable[[tuple, str], UserError]) -> T:
    """Build a group of settings from a mapping.

    Args:
        kind: a pydantic dataclass.
        data: what YAML held.
        error: makes the error of a place (names and indices, from outside in) and its problem.

    Raises:
        UserError: the first unknown or missing name, wrong type, or value out of range.
    """
    try:
        # In JSON lists stand for tuples and mappings for groups; all else is strict.
        return pydantic.TypeAdapter(kind).validate_json(json.dumps(data))
    except pydantic.ValidationError as invalid:
        problems = invalid.errors(include_url=False)
    unknown = (p for p in problems if p["type"] == "unexpected_keyword_argument")
    first = next(unknown, problems[0])  # where a name is misspelt, the right one is missing too
    # What may be an integer or not is said to be a number.
    number = (p for p in problems if p["type"] == "float_type" and p["loc"][-1] == "float")
    if first["type"] == "int_type":
        first = next(number, first)
    place = tuple(part for part in first["loc"] if part not in ("[key]", "float"))
    raise error(place, _describe(kind, first, place))


_PROBLEMS = {
    "missing": "missing; add it",
    "dataclass_type": "must be a group of settings",
    "dict_type": "must be a group of settings",
    "tuple_type": "must be a list",
    "too_short": "must be a list of at least one",
    "bool_type": "must be true or false",
}


def _describe(kind: type, problem: Mapping[str, Any], place: tuple) -> str:
    """What is wrong with a value, in words."""
    value = problem["input"]
    if problem["type"] == "unexpected_keyword_argument":
        return f"unknown setting{nearest(place[-1], _known(kind, place[:-1]))}"
    message = _PROBLEMS.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be")
    if not message.startswith("must be") or problem["type"] == "value_error":
        return message
    power = re.fullmatch(r"([-+]?\d+\.?\d*)[eE]([-+]?\d+)", str(value))
    # YAML takes 1e-6 or 2.5e6 for a string.
    number = power and problem["type"] == "float_type"
    remedy = f"; write {float(power[1])}e{int(power[2]):+d}" if number else ""
    return f"{message}, not {_short(value)}{remedy}"


def _known(hint: Any, place: tuple) -> list[str]:
    """Names of the settings in the group at a place."""
    while not (dataclasses.is_dataclass(hint) and not place):
        if dataclasses.is_dataclass(hint):
            hint, place = typing.get_type_hints(hint)[place[0]], place[1:]
        elif typing.get_origin(hint) in (dict, tuple):
            index = 1 if typing.get_origin(hint) is dict else 0
            hint, place = typing.get_args(hint)[index], place[1:]
        else:  # X | None
            hint = typing.get_args(hint)[0]
    return [field.name for field in dataclasses.fields(hint)]


def _plain(name: str) -> str:
    return name if re.fullmatch(r"[\w-]{1,64}", name) else _short(name)


_short = reprlib.repr
