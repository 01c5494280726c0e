"""The credits by name. A credit's docstring says all that `table` shows of it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turn_credit.group import Group, Ragged, join

SECTIONS = ("Formula", "Needs", "Costs", "Bias", "Source")


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
    """

    name: str
    title: str
    of: Literal["turns", "questions", "nodes"]
    scope: Literal["group", "update"]
    function: Callable[..., Any]

    def __call__(self, group: Any, **settings: Any) -> Any:
        return self.function(group, **settings)

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
    of: Literal["turns", "questions", "nodes"],
    scope: Literal["group", "update"] = "group",
) -> Callable[[Callable], Callable]:
    """Registers the function below it as a credit, under its name."""

    def register(function: Callable) -> Callable:
        name = function.__name__
        CREDITS[name] = Credit(name, title, of, scope, function)
        return function

    return register


def credit_update(name: str | Credit, groups: Sequence[Group], **settings: Any) -> list[Ragged]:
    """Credits of all groups of an update, in their order; one array per consultation or state.

    Args:
        name: of a credit in `CREDITS` that takes groups, or such a credit.
        groups: one per case.
        settings: further arguments of the credit's function.
    """
    entry = CREDITS[name] if isinstance(name, str) else name
    if entry.scope == "group":
        return [entry(group, **settings) for group in groups]
    rows = iter(entry(join(groups), **settings))
    if entry.of == "turns":
        return [[next(rows) for _ in group.lengths] for group in groups]
    return [[next(rows) for _ in group.utilities or ()] for group in groups]


def table() -> str:
    """All credits as a Markdown table, from their docstrings."""
    lines = [f"| credit | of | {' | '.join(SECTIONS).lower()} |", "|---" * 7 + "|"]
    for entry in CREDITS.values():
        cells = [entry.section(name) for name in SECTIONS]
        lines.append(f"| `{entry.name}` | {entry.of} | {' | '.join(cells)} |")
    return "\n".join(lines)
