"""CreditBench's tables, best credit first, and the controls that it must get right."""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from credit_lab.bench.bundle import PUBLISHED, read_bundle
from credit_lab.bench.score import Score, score, shared
from credit_lab.bench.worlds import CASES, every_world
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from turn_credit import Credit, Group, Ragged
from turn_credit.arithmetic import leave_one_out
from turn_credit.ranking import Estimate, association, ranks

PAGE = Path(__file__).with_name("README.md")
TRAINED = ROOT / "docs" / "credits.md"  # what credits came to in long training
METHODS = ROOT / "README.md"  # and what the study's methods did, of which some are credits
BASE = "1"  # the base model from which the others were trained
SCORES = ("samples", "reads", "ties", "single")
VALUES = {"last": "last", "q_star": "Q*"}
REPEATED = "±"  # stands beside an accuracy of three or more runs
SHORT = ("VinePPO", "C3")  # trained for as long as PCQC takes, in fewer updates
FEWEST = 4  # credits whose ranks are compared
# Columns of a score that might foretell accuracy after training.
FORETELLING: dict[str, Callable[[Score], float]] = {
    "rank, last": lambda own: own.rank["last"].mean,
    "regret, last": lambda own: own.regret["last"].mean,
    "rank, Q*": lambda own: own.rank["q_star"].mean,
    "regret, Q*": lambda own: own.regret["q_star"].mean,
    "idle": lambda own: own.idle,
    "luck": lambda own: math.nan if own.luck is None else own.luck,
    "samples": lambda own: own.samples,
}
# Columns that give a place; the lowest, times this, is first.
PLACING = {"rank, last": -1, "idle": 1}


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
    """A score for each credit; the best ranks first, what cannot be scored and controls last.

    Raises:
        UserError: the bundle has no state at which every credit could be asked.
    """
    _SEEN.clear()  # so that a second call gives the same table
    states = read_bundle(bundle)
    if not shared(states):
        raise UserError(
            f"{bundle}: at none of its {len(states)} states do all candidates ask and go on to the "
            "end; record a larger bundle"
        )
    scores = [score(credit, states, exact=credit in CONTROLS) for credit in credits]
    controls = [control.title for control in CONTROLS]

    def place(own: Score) -> tuple:
        control = own.title in controls
        if control or not own.rank:
            return control, own.rank is None, 0
        return control, False, -round(own.rank["last"].mean, 6)  # equals stand as they were given

    return sorted(scores, key=place)


def scores(every: Sequence[Score]) -> str:
    """What each credit reached, as Markdown; in brackets what a column rests on."""
    known = next((own for own in every if own.rank), None)
    heads = ["credit", "of"]
    for value, name in VALUES.items():
        heads += [f"rank, {name} ({known.rank[value].count if known else 0})", "regret"]
    heads += [f"luck ({known.states if known else 0})", f"idle ({known.idles if known else 0})"]
    heads += SCORES
    rows = [[own.title, own.of, *_cells(own, len(heads) - 2)] for own in every]
    return markdown(heads, "ll" + "r" * (len(heads) - 4) + "ll", rows)


def accuracies(credits: Path = TRAINED, methods: Path = METHODS) -> dict[str, str]:
    """Title of a credit -> accuracy after long training in %, `±` its SD over three runs or more.

    Args:
        credits, methods: pages with the table of trained credits, and of the study's methods.
    """
    from analysis.copied_tables import excerpt, shown

    known, title = {}, ""
    for row in _rows(shown(methods, "clinic-full", "overview_by_base")):
        title = row["Method"].strip("*") or title
        if row["Base model"] == BASE:
            known[title] = row["Avg."]
    rows = _rows(excerpt(credits, "clinic-full", "peers"))
    return known | {row["credit"]: row["accuracy, all benchmarks (%)"] for row in rows}


def _rows(table: str) -> list[dict[str, str]]:
    """Rows of a Markdown table, cells by their column's head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def _percent(accuracy: str) -> float:
    return float(accuracy.split(REPEATED)[0])


def foretold(every: Sequence[Score], trained: Mapping[str, str]) -> str:
    """How each column goes with accuracy after training, as Markdown."""
    known = [own for own in every if own.rank and own.title in trained]
    kept = {
        "three runs or more": [own for own in known if REPEATED in trained[own.title]],
        "all trained": known,
        f"without {' and '.join(SHORT)}": [own for own in known if own.title not in SHORT],
    }
    heads = ["column", *(f"{name} ({len(those)})" for name, those in kept.items())]
    columns = FORETELLING | {
        f"rank, last: `{policy}`": partial(_of_policy, policy)
        for policy in (known[0].by_policy if known else ())
    }
    rows = [
        [name, *(_associated(column, those, trained) for those in kept.values())]
        for name, column in columns.items()
    ]
    return markdown(heads, "l" + "r" * len(kept), rows)


def _of_policy(policy: str, own: Score) -> float:
    return own.by_policy[policy].mean if own.by_policy else math.nan


def _associated(
    column: Callable[[Score], float], those: Sequence[Score], trained: Mapping[str, str]
) -> str:
    pairs = [(column(own), _percent(trained[own.title])) for own in those]
    pairs = [pair for pair in pairs if not math.isnan(pair[0])]
    if len(pairs) < FEWEST:
        return "—"
    own, p = association(*zip(*pairs, strict=True))
    count = f", {len(pairs)}" if len(pairs) < len(those) else ""
    return f"{own.mean:+.2f} [{own.low:+.2f}, {own.high:+.2f}] (p {p:.3f}{count})"


def places(every: Sequence[Score], trained: Mapping[str, str]) -> str:
    """Each trained credit's place by accuracy and by columns, as Markdown; equals share one."""
    known = [own for own in every if own.rank and own.title in trained]
    accuracy = np.array([_percent(trained[own.title]) for own in known])
    places = {"place": ranks(-accuracy)}
    for name in PLACING:
        places[f"by {name}"] = ranks([PLACING[name] * FORETELLING[name](own) for own in known])
    rows = [
        [known[k].title, trained[known[k].title], *(f"{row[k]:g}" for row in places.values())]
        for k in np.argsort(-accuracy, kind="stable")
    ]
    return markdown(["credit", "accuracy (%)", *places], "l" + "r" * (len(places) + 1), rows)


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


def worlds(cases: int = CASES) -> str:
    """How credits of questions rank where planning pays, as Markdown; in brackets the states."""
    counts, known = every_world(CONTROLS, cases)
    heads = ["credit"]
    for name, count in counts.items():
        heads += [f"rank, {name.rpartition('-')[2]} ({count})", "regret"]
    rows = [
        [title, *(cell for pair in of_worlds for cell in _of_state(*pair))]
        for title, of_worlds in known.items()
    ]
    return markdown(heads, "l" + "r" * (len(heads) - 1), rows)


def markdown(heads: Sequence[str], sides: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; of each column its side, `l` or `r`."""
    rule = "".join("---|" if side == "l" else "---:|" for side in sides)
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], f"|{rule}", *lines[1:]])


def _cells(own: Score, count: int) -> list[str]:
    if own.rank is None:
        return [f"not scored: {own.known.missing}", *[""] * (count - 1)]
    cells: list[str] = []
    for value in VALUES:
        cells += _of_state(own.rank[value], own.regret[value])
    cells += [_number(own.luck, 0), _number(own.idle, 0), _number(own.samples, 1)]
    return [*cells, _number(own.reads, 1), own.known.ties, own.known.single]


def _of_state(rank: Estimate, lost: Estimate) -> tuple[str, str]:
    mean, low, high = (_number(value, 2) for value in (rank.mean, rank.low, rank.high))
    return f"{mean} [{low}, {high}]", _number(lost.mean, 1)


def _number(value: float | None, digits: int) -> str:
    """Rounded; a zero has no sign."""
    if value is None or math.isnan(value):
        return "—"
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _span(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{_number(min(known), 2)} to {_number(max(known), 2)}" if known else "—"
