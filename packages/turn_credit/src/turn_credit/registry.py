"""The credits by name. A credit's docstring says all that `table` shows of it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

import numpy as np

from turn_credit.group import Group, Ragged, join
from turn_credit.tensors import as_tensor, plain

SECTIONS = ("Formula", "Needs", "Costs", "Bias", "Source")

Kind = Literal["turns", "questions", "nodes"]
Scope = Literal["group", "update"]


@dataclass(frozen=True)
class Credit:
    """A credit and what is known of it.

    Attributes:
        name: in `CREDITS`.
        title: for readers.
        of: what it credits. The function takes a `Tree` for nodes, else a `Group`, and returns an
            array for each consultation or state.
        scope: what it compares: one group, or all groups of an update joined into one.
        function: the credit.
        joins: whether it compares across the update under some settings, whatever its scope.
    """

    name: str
    title: str
    of: Kind
    scope: Scope
    function: Callable[..., Any]
    joins: Callable[[dict[str, Any]], bool] | None = None

    def __call__(self, group: Any, *arguments: Any, **settings: Any) -> Any:
        """The credits of a group, as tensors where it was given tensors.

        Raises:
            ValueError: the function returns more or fewer numbers than there are turns or
                candidates, or what the credit itself refuses.
        """
        if self.of == "nodes" or not isinstance(group, Group):
            return self.function(group, *arguments, **settings)
        unit, part, lengths = _units(self.of, group)
        if self.of == "turns" and not lengths and len(vars(group)["rewards"]):
            raise ValueError("this credit needs `turns`, or a field that has them")
        credits = self.function(group, *arguments, **settings)
        rows = [plain(row) for row in credits]
        if len(rows) != len(lengths):
            raise ValueError(
                f"credit '{self.name}' returns {len(rows)} rows for {len(lengths)} {unit}s; "
                f"return one for each"
            )
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            if np.shape(row) != (length,):
                raise ValueError(
                    f"credit '{self.name}' returns an array of shape {np.shape(row)} for {unit} "
                    f"{place}, which has {length} {part}s; return a number for each"
                )
        if group.tensor is None:
            return credits
        return [as_tensor(np.asarray(row, np.float64), group.tensor) for row in rows]

    def section(self, name: str) -> str:
        """A section of the docstring, such as `Formula`, on one line."""
        text = self.function.__doc__ or ""
        match = re.search(rf"^ *{name}: (.*?)(?=^ *(?:\w+:|$))", text, re.M | re.S)
        if not match:
            raise ValueError(f"the docstring of {self.function.__name__} has no section {name}")
        return " ".join(match[1].split())


CREDITS: dict[str, Credit] = {}


def credit(
    title: str,
    of: Kind,
    scope: Scope = "group",
    joins: Callable[[dict[str, Any]], bool] | None = None,
) -> Callable[[Callable], Callable]:
    """Registers the function below it as a credit, under its name; see `Credit`.

    Raises:
        ValueError: another module has registered a credit of that name.
    """

    def register(function: Callable) -> Callable:
        name = function.__name__
        known = CREDITS.get(name)
        if known and known.function.__module__ != function.__module__:
            raise ValueError(
                f"credit '{name}' is {known.title} of {known.function.__module__}; give the "
                "function another name"
            )
        entry = CREDITS[name] = Credit(name, title, of, scope, function, joins)

        @wraps(function)
        def checked(*arguments: Any, **settings: Any) -> Any:
            return entry(*arguments, **settings)

        return checked

    return register


def credit_update(
    name: str | Credit,
    groups: Sequence[Group],
    unknown: Literal["refuse", "nan"] = "refuse",
    **settings: Any,
) -> list[Ragged]:
    """Credits of all groups of an update, in their order; one array per consultation or state.

    Args:
        name: that of a credit in `CREDITS` that takes groups, or such a credit.
        groups: one per case.
        unknown: what a credit is that needs a belief or a value that is not known: refused, or NaN.
        settings: further arguments of the credit's function.

    Raises:
        ValueError: there is no such credit, a group lacks what it needs, or a credit is no number;
            the message names the group, by its number and its name.
    """
    entry = _known(name) if isinstance(name, str) else name
    if entry.of == "nodes":
        raise ValueError(f"credit '{entry.name}' is of nodes: call it with a Tree")
    if isinstance(groups, Group):
        raise ValueError("groups are one Group; give a list of groups, one per case")
    if entry.scope == "update" or (entry.joins and entry.joins(settings)):
        rows = iter(_together(entry, groups, settings))
        credits = [[next(rows) for _ in _units(entry.of, group)[2]] for group in groups]
    else:
        credits = [_alone(entry, n, group, settings) for n, group in enumerate(groups)]
    if unknown == "refuse":
        for number, (group, own) in enumerate(zip(groups, credits, strict=True)):
            _refuse_unknown(entry, group, _label(number, group), own)
    return credits


def _known(name: str) -> Credit:
    if name not in CREDITS:
        raise ValueError(f"no credit is called '{name}'; known are {', '.join(CREDITS)}")
    return CREDITS[name]


def _alone(entry: Credit, number: int, group: Group, settings: dict[str, Any]) -> Ragged:
    """Credits of one group."""
    try:
        return entry(group, **settings)
    except ValueError as problem:
        raise ValueError(f"{_label(number, group)}: {problem}") from problem


def _together(entry: Credit, groups: Sequence[Group], settings: dict[str, Any]) -> Ragged:
    """Credits of all groups joined into one."""
    if not groups:
        return []
    try:
        return entry(join(groups), **settings)
    except ValueError as problem:
        for number, group in enumerate(groups):
            for field in set(re.findall(r"`(\w+)`", str(problem))):
                if field in vars(group) and not group.has(field):
                    raise ValueError(f"{_label(number, group)}: {problem}") from problem
        raise ValueError(f"groups 0 to {len(groups) - 1}, joined: {problem}") from problem


def _refuse_unknown(entry: Credit, group: Group, label: str, rows: Ragged) -> None:
    flat = np.concatenate([np.zeros(0), *(plain(row) for row in rows)])
    if np.isfinite(flat).all():
        return
    unit, part, lengths = _units(entry.of, group)
    place = int(np.flatnonzero(~np.isfinite(flat))[0])
    row = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
    raise ValueError(
        f"{label}: credit '{entry.name}' of {unit} {row}, {part} {place - sum(lengths[:row])} is "
        f"{flat[place]}: what it needs is not known there; leave the {unit} out, or pass "
        'unknown="nan"'
    )


def _label(number: int, group: Group) -> str:
    return f"group {number}" + (f" ('{group.name}')" if group.name else "")


def _units(of: str, group: Group) -> tuple[str, str, list[int]]:
    """What a row of credits is of, what a number is of, and how many numbers each row has."""
    if of == "turns":
        return "consultation", "turn", group.lengths
    return "state", "candidate", group.candidates


def table() -> str:
    """All credits as a Markdown table, from their docstrings."""
    lines = [f"| credit | of | {' | '.join(SECTIONS).lower()} |", "|---" * 7 + "|"]
    for entry in CREDITS.values():
        cells = [entry.section(name) for name in SECTIONS]
        lines.append(f"| `{entry.name}` | {entry.of} | {' | '.join(cells)} |")
    return "\n".join(lines)
