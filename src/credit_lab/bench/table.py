"""CreditBench's tables, best credit first, and the controls that it must get right."""

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from credit_lab.bench.bundle import PUBLISHED, read_bundle
from credit_lab.bench.score import Score, score
from turn_credit import Credit, Group, Ragged
from turn_credit.arithmetic import leave_one_out

PAGE = Path(__file__).with_name("README.md")
SCORES = (
    *("credit", "of", "states", "rank, Q*", "regret, Q*", "rank, last", "regret, last"),
    *("cosine", "luck", "idle", "samples", "reads", "ties", "single"),
)


def q_star(group: Group) -> Ragged:
    """Q* itself, which the bench gives it."""
    return group.read("continued")


def negated(group: Group) -> Ragged:
    """Q*, negated."""
    return [-values for values in q_star(group)]


def at_random(group: Group) -> Ragged:
    """Numbers that know nothing, others whenever a group is seen again.

    Each group has a stream of its own, so what else is scored, and when, does not move them.
    """
    values = q_star(group)
    key = zlib.crc32(np.round(np.concatenate(values), 9).tobytes())
    rng = np.random.default_rng([key, _SEEN[key]])
    _SEEN[key] += 1
    return [rng.standard_normal(len(row)) for row in values]


def reinforce(group: Group) -> Ragged:
    """Reward less the mean of the others', undivided: its expected gradient is the exact one."""
    credits = leave_one_out(np.asarray(group.rewards, float))
    return [np.full(turns, own) for turns, own in zip(group.lengths, credits, strict=True)]


_SEEN: Counter[int] = Counter()  # how often `at_random` has seen a group
CONTROLS = (
    Credit("q_star", "*Q\\* itself*", "questions", "group", q_star),
    Credit("negated", "*Q\\* negated*", "questions", "group", negated),
    Credit("at_random", "*random*", "questions", "group", at_random),
    Credit("reinforce", "*REINFORCE*", "turns", "group", reinforce),
)


def scored(credits: Sequence[Credit], bundle: Path = PUBLISHED) -> list[Score]:
    """A score for each credit; the best ranks first, what cannot be scored and controls last."""
    _SEEN.clear()  # so that a second call gives the same table
    states = read_bundle(bundle)
    scores = [score(credit, states, exact=credit in CONTROLS) for credit in credits]
    controls = [control.title for control in CONTROLS]

    def place(own: Score) -> tuple:
        control = own.title in controls
        if control or not own.rank:
            return control, own.rank is None, 0
        return control, False, -round(own.rank["last"].mean, 6)  # equals stand as they were given

    return sorted(scores, key=place)


def scores(every: Sequence[Score]) -> str:
    """What each credit reached, as Markdown."""
    return markdown(
        SCORES,
        "ll" + "r" * (len(SCORES) - 4) + "ll",
        [[own.title, own.of, *_cells(own)] for own in every],
    )


def gradients(every: Sequence[Score]) -> str:
    """Each credit's expected gradient beside the exact one, as Markdown."""
    known = [own for own in every if own.gradients]
    names = [
        name
        for name in (known[0].gradients if known else ())
        if any(not math.isnan(own.gradients[name].question) for own in known)
    ]
    heads = ["credit", "choice", *(f"question: {name}" for name in names), "norm", "asking"]
    rows = []
    for own in known:
        at = own.gradients.values()
        rows.append(
            [
                own.title,
                _span([beside.choice for beside in at]),
                *(_number(own.gradients[name].question, 2) for name in names),
                _span([beside.norm for beside in at]),
                _span([beside.asking for beside in at]),
            ]
        )
    return markdown(heads, "l" + "r" * (len(heads) - 1), rows)


def markdown(heads: Sequence[str], sides: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; of each column its side, `l` or `r`."""
    rule = "".join("---|" if side == "l" else "---:|" for side in sides)
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], f"|{rule}", *lines[1:]])


def _cells(own: Score) -> list[str]:
    if own.rank is None:
        return [f"not scored: {own.known.missing}", *[""] * (len(SCORES) - 3)]
    cells = [str(own.states)]
    for value in ("q_star", "last"):
        rank, lost = own.rank[value], own.regret[value]
        cells += [f"{rank.mean:.2f} [{rank.low:.2f}, {rank.high:.2f}]", f"{lost.mean:.1f}"]
    known = [b.question for b in own.gradients.values() if not math.isnan(b.question)]
    cells.append(f"{np.mean(known):.2f} ({min(known):.2f})" if known else "—")
    cells += [_number(own.luck, 0), _number(own.idle, 0), _number(own.samples, 1)]
    return [*cells, _number(own.reads, 1), own.known.ties, own.known.single]


def _number(value: float | None, digits: int) -> str:
    """Rounded; a zero has no sign."""
    if value is None or math.isnan(value):
        return "—"
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _span(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{_number(min(known), 2)} to {_number(max(known), 2)}" if known else "—"
