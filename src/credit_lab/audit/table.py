"""The audit's table: expected gradients of the methods beside the exact one, part by part."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from credit_lab.audit.estimators import method_gradient, question_gradient, terminal_gradient
from credit_lab.audit.policies import policies
from credit_lab.audit.tabular import CLINIC, Table, TabularPolicy, exact_gradient, questions
from credit_lab.audit.turn_credits import reference_credits
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.study import Method
from pcqc.system.files import csv_text, write_atomic

NOTHING = 1e-10  # a gradient that is shorter has no direction
FOLDER = Path("results") / "audit"
ALONE = "question loss alone"
REFERENCE = "REINFORCE, leave-one-out"
HEADING = (
    "Cosine with the exact gradient of the probability of a correct answer, and the ratio of the "
    "norms to its norm: mean over policies, and range. Asking: how much more than the exact "
    "gradient the choice part pushes towards asking (cosine with the gradient of the number of "
    "questions, less the exact gradient's)."
)


@dataclass(frozen=True)
class Row:
    """One method at one policy; NaN where a part of either gradient is nothing.

    Attributes:
        policy: its name.
        method: its title, and `ALONE` where it is the question term without the terminal one.
        cosine_choice: with the exact gradient's choice part; likewise the other parts.
        ratio_choice: norm by the exact gradient's; likewise the other parts.
        asking: cosine of the choice part with the gradient of the expected number of questions,
            less that of the exact gradient.
        norm_choice: largest absolute entry of the choice part.
    """

    policy: str
    method: str
    cosine_choice: float
    cosine_question: float
    cosine_answer: float
    ratio_choice: float
    ratio_question: float
    ratio_answer: float
    asking: float
    norm_choice: float


def audited(methods: Mapping[str, Method]) -> dict[str, Grpo]:
    """The methods that are audited: all that learn, but those with a tree and a learned critic."""
    return {name: m for name, m in methods.items() if isinstance(m, Grpo)}


def audit(
    methods: Mapping[str, Method], at: Mapping[str, TabularPolicy] | None = None
) -> list[Row]:
    """Compare every method at every policy.

    Args:
        methods: name -> settings.
        at: name -> policy; those of `policies` where not given.
    """
    found = []
    for name, policy in (policies(CLINIC) if at is None else at).items():
        reference = terminal_gradient(policy, reference_credits(policy, 4))
        compare = Comparison(name, policy)
        found.append(compare.row(REFERENCE, reference))
        for method in audited(methods).values():
            found.append(compare.row(method.title, method_gradient(policy, method)))
            if isinstance(method, Pcqc):
                alone = question_gradient(policy, method)
                found.append(compare.row(f"{method.title}, {ALONE}", alone))
    return found


class Comparison:
    """What gradients are compared with at one policy."""

    def __init__(self, name: str, policy: TabularPolicy):
        self.name, self.exact = name, exact_gradient(policy)
        self.more_questions = exact_gradient(policy, questions).choice

    def row(self, method: str, gradient: Table) -> Row:
        """A method's gradient beside the exact one."""
        numbers = {}
        for part, own, exact in zip(Table.PARTS, gradient.parts, self.exact.parts, strict=True):
            numbers[f"cosine_{part}"] = cosine(own, exact)
            numbers[f"ratio_{part}"] = _ratio(own, exact)
        own_asking = cosine(gradient.choice, self.more_questions)
        numbers["asking"] = own_asking - cosine(self.exact.choice, self.more_questions)
        numbers["norm_choice"] = float(np.abs(gradient.choice).max())
        return Row(self.name, method, **numbers)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Of two parts of gradients; NaN where either is nothing."""
    norms = np.linalg.norm(one), np.linalg.norm(other)
    return float((one * other).sum() / np.prod(norms)) if min(norms) > NOTHING else np.nan


def _ratio(own: np.ndarray, exact: np.ndarray) -> float:
    norm = np.linalg.norm(exact)
    return float(np.linalg.norm(own) / norm) if norm > NOTHING else np.nan


def rendered(rows: Sequence[Row]) -> str:
    """The table as Markdown: one line per method, each number over all policies."""
    names = [f.name for f in fields(Row)][2:-1]
    titles = [name.replace("_", ", ") for name in names]
    lines = [HEADING, "", f"| method | {' | '.join(titles)} |", "|---|" + "---|" * len(names)]
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        cells = [_mean_and_range([getattr(row, name) for row in own]) for name in names]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    alone = [row.norm_choice for row in rows if row.method.endswith(ALONE)]
    if alone:
        lines += ["", f"Largest entry of the choice part of any {ALONE}: {max(alone):.1e}."]
    return "\n".join(lines) + "\n"


def by_policy(rows: Sequence[Row], name: str) -> str:
    """One number of every method at each policy, as Markdown."""
    columns = list(dict.fromkeys(row.policy for row in rows))
    lines = [f"| {name.replace('_', ', ')} | {' | '.join(columns)} |"]
    lines.append("|---|" + "---|" * len(columns))
    for method in dict.fromkeys(row.method for row in rows):
        own = {row.policy: getattr(row, name) for row in rows if row.method == method}
        cells = [_number(own[c]) for c in columns]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_audit(methods: Mapping[str, Method], folder: Path = FOLDER) -> str:
    """Write `table.csv`, a row per policy and method, and `table.md`; returns the latter's text."""
    rows = audit(methods)
    detail = [by_policy(rows, f"cosine_{part}") for part in Table.PARTS]
    text = "\n".join([rendered(rows), *detail, by_policy(rows, "asking")])
    header = [f.name for f in fields(Row)]
    values = [["" if value != value else value for value in asdict(row).values()] for row in rows]
    write_atomic(folder / "table.csv", csv_text(header, values))
    write_atomic(folder / "table.md", text)
    return text


def _mean_and_range(values: Sequence[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return _number(np.nan)
    low, high = min(known), max(known)
    return f"{_number(float(np.mean(known)))} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    """Two digits; a zero has no sign."""
    return "—" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
