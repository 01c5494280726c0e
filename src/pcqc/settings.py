"""Strict loading of YAML into dataclasses: an unknown or mistyped key stops with its name."""

import dataclasses
import difflib
import math
import re
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

import yaml

from pcqc.errors import UserError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a number, both included but for `above`."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most and number > self.above

    def __str__(self) -> str:
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.least), ("above", self.above))
            if bound != -math.inf
        ]
        return " and ".join(bounds + ([f"at most {self.most:g}"] if self.most != math.inf else []))


class Filled:
    """Of a list: at least one entry."""

    def __contains__(self, values: tuple) -> bool:
        return bool(values)

    def __str__(self) -> str:
        return "a list of at least one"


class Plain:
    """Of a name: it may stand in a file's name, in a workflow's pattern and in a query."""

    def __contains__(self, name: str) -> bool:
        return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) is not None

    def __str__(self) -> str:
        return "named by letters, digits, '_' and '-'"


# Annotations of settings. A float is finite without being asked to.
Count = Annotated[int, Range(least=1)]
Whole = Annotated[int, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
Weight = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(least=0, most=1)]
Name = Annotated[str, Plain()]
Some = Annotated[tuple[T, ...], Filled()]


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, of which YAML would keep the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' stands twice", problem_mark=node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict:
    """Read a YAML mapping.

    Raises:
        UserError: the file is missing, is no YAML, or is no mapping; names file and line.
    """
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); name a settings file"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise UserError(f"{path}{line}: {problem}; fix the file") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: must hold settings as `name: value`; fix the file")
    return data


def build(kind: type[T], data: Any, where: str) -> T:
    """Build a dataclass from a mapping, each value checked against its annotation.

    Args:
        kind: the dataclass.
        data: what the YAML held.
        where: what to call the place in an error, as `file: section`.

    Raises:
        UserError: an unknown key (with the nearest known one), a missing one, a wrong type, or a
            number outside its range.
    """
    if not isinstance(data, dict):
        raise UserError(f"{where}: must be a group of settings, not {data!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in data:
        if key not in fields:
            raise UserError(f"{where}: unknown setting '{key}'{nearest(str(key), fields)}")
    values = {}
    inside = f"{where}: " if where.endswith((".yaml", ".yml")) else f"{where}."
    for name, field in fields.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], inside + name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UserError(f"{where}: the setting '{name}' is missing; add it")
    try:
        return kind(**values)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or the list of them."""
    known = list(known)
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean '{match[0]}'?" if match else f"; known are {', '.join(sorted(known))}"


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        converted, (bounds, *_) = _convert(arguments[0], value, where), hint.__metadata__
        _expect(converted in bounds, str(bounds), value, where)
        return converted
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            known = ", ".join(map(str, arguments))
            raise UserError(f"{where}: {value!r} is not one of {known}")
        return value
    if origin is dict:
        _expect(isinstance(value, dict), "a group of settings", value, where)
        for key in value:
            _expect(isinstance(key, str), "named by texts (put the name in quotes)", key, where)
            _convert(arguments[0], key, where)
        return {k: _convert(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin in (tuple, list):
        _expect(isinstance(value, list), "a list", value, where)
        return origin(_convert(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[hint]
    _expect(type(value) is hint, wanted, value, where, _as_number(value) if hint is float else "")
    if hint is float:
        _expect(math.isfinite(value), "a finite number", value, where)
    return value


def _as_number(value: Any) -> str:
    """How to write a number that YAML takes for a text, such as 1e-6 or 2.5e6."""
    power = re.fullmatch(r"([-+]?\d+\.?\d*)[eE]([-+]?\d+)", str(value))
    return f"; write {float(power[1])}e{int(power[2]):+d}" if power else ""


def _expect(holds: bool, wanted: str, value: Any, where: str, remedy: str = "") -> None:
    if not holds:
        raise UserError(f"{where}: must be {wanted}, not {value!r}{remedy}")
