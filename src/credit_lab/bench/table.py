"""The rows of CreditBench as a table, best first, and the controls that it must get right."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from credit_lab.bench.bundle import read_bundle
from credit_lab.bench.score import Score, score
from pcqc.errors import UserError
from turn_credit import Credit, Group, Ragged

START, END = "<!-- creditbench leaderboard: made -->", "<!-- creditbench leaderboard: end -->"
HEADS = (
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
    """Numbers that know nothing."""
    return [_RANDOM.standard_normal(len(values)) for values in q_star(group)]


_RANDOM = np.random.default_rng(0)
CONTROLS = (
    Credit("q_star", "*Q\\* itself*", "questions", "group", q_star),
    Credit("negated", "*Q\\* negated*", "questions", "group", negated),
    Credit("at_random", "*random*", "questions", "group", at_random),
)


def rows(credits: Sequence[Credit]) -> list[Score]:
    """A score for each credit; the best ranks first, controls and what cannot be scored last."""
    states = read_bundle()
    scores = [(score(credit, states, credit in CONTROLS), credit in CONTROLS) for credit in credits]

    def place(entry: tuple[Score, bool]) -> tuple:
        own, control = entry
        return control, own.rank is None, 0 if control or not own.rank else -own.rank["last"].mean

    return [own for own, _ in sorted(scores, key=place)]


def markdown(scores: Iterable[Score]) -> str:
    """A row for each score."""
    lines = [f"| {' | '.join(HEADS)} |", "|---|---|" + "---:|" * (len(HEADS) - 4) + "---|---|"]
    for own in scores:
        lines.append(f"| {' | '.join([own.title, own.of, *_cells(own)])} |")
    return "\n".join(lines)


def _cells(own: Score) -> list[str]:
    if own.rank is None:
        return [f"not scored: {own.known.missing}", *[""] * (len(HEADS) - 3)]
    cells = [str(own.states)]
    for value in ("q_star", "last"):
        rank, lost = own.rank[value], own.regret[value]
        cells += [f"{rank.mean:.2f} [{rank.low:.2f}, {rank.high:.2f}]", f"{lost.mean:.1f}"]
    cosines = own.cosines["question"]
    cells.append(f"{np.mean(cosines):.2f} ({min(cosines):.2f})" if cosines else "—")
    cells += [_number(own.luck, 0), _number(own.idle, 0), _number(own.samples, 1)]
    return [*cells, _number(own.reads, 1), own.known.ties, own.known.single]


def _number(value: float | None, digits: int) -> str:
    return "—" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def replaced(page: str, table: str) -> str:
    """The page with this table between the two marks.

    Raises:
        UserError: the page lacks them.
    """
    if page.count(START) != 1 or page.count(END) != 1:
        raise UserError("CreditBench's README: the marks of the leaderboard are gone; restore them")
    head, rest = page.split(START)
    return f"{head}{START}\n\n{table}\n\n{END}{rest.split(END)[1]}"
