"""How good each method's first questions are, over all its runs under all base models."""

from collections.abc import Collection, Sequence

from analysis.collected import Collected
from analysis.instrument import Instrument
from analysis.statistics.estimates import over_runs
from analysis.table import Cell, Column, Row, Table, mean_of_runs
from pcqc.clinic.quality import EARLY, AskedQuestion, summary

NAME = "question_quality_by_base"
TURNS = {str(turn): (turn,) for turn in range(1, EARLY + 1)}
ALL = f"1–{EARLY}"
TURNS[ALL] = tuple(range(1, EARLY + 1))
COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("turn", "Turn", numeric=False),
    Column("best", "Best (%)"),
    Column("chance", "By chance (%)"),
    Column("above", "Above chance (pp)"),
    Column("repeated", "Repeated (%)"),
)


def build(collected: Collected) -> Table:
    """Every method and control on the development benchmark: each early turn, and all together."""
    development = collected.study.development
    every = _instruments(collected)
    rows = [row for m in collected.methods() for row in _rows(every, m, collected.title(m))]
    caption = (
        f"{collected.benchmarks[development].title}, {collected.number_of_cases(development):,} "
        f"cases; the first {EARLY} answered questions of each consultation. Means over all runs "
        f"under all base models ({len(every)} here) ± sample standard deviations; every run counts "
        "alike. Best, by chance and repeated: as in the table by turn; above chance: best less by "
        "chance. A method's last row: of all these questions together."
    )
    columns = (*COLUMNS, *_of_bases(len(every)))
    return Table(NAME, "How good the first questions are.", caption, columns, tuple(rows))


def shares_of_best(collected: Collected) -> dict[str, tuple[float, float]]:
    """Method -> percent of best ones among all early questions, and by chance; as in the table."""
    every, found = _instruments(collected), {}
    for method in collected.methods():
        runs = [_shares(run, TURNS[ALL]) for base in _asked(every, method) for run in base]
        if runs and all(runs):
            best, chance = (over_runs([run[key] for run in runs]) for key in ("best", "chance"))
            found[method] = best.mean, chance.mean
    return found


def _instruments(collected: Collected) -> list[Instrument]:
    """One for each base model, on the development benchmark."""
    return [Instrument(one, collected.study.development) for one in collected.on_each_base]


def _asked(every: Sequence[Instrument], method: str) -> list[list[list[AskedQuestion]]]:
    """[base models][runs] the early questions of a method."""
    return [[one.early(method, run) for run in one.collected.runs(method)] for one in every]


def _of_bases(count: int) -> list[Column]:
    """A column for each base model, where there are several."""
    numbers = range(1, count + 1) if count > 1 else ()
    return [Column(f"above_{n}", f"Base model {n}", "Above chance (pp)") for n in numbers]


def _rows(every: Sequence[Instrument], method: str, title: str) -> list[Row]:
    by_base, rows = _asked(every, method), []
    for label, turns in TURNS.items():
        found = [[_shares(run, turns) for run in runs] for runs in by_base]
        pooled = [run for runs in found for run in runs]
        cells = [_mean(pooled, column.key) for column in COLUMNS[2:]]
        if len(found) > 1:
            cells += [_mean(runs, "above") for runs in found]
        first = not rows
        words = (title if first else "", label)
        rows.append(Row(f"{method}:{label}", (*words, *cells), first, method == "pcqc"))
    return rows


def _shares(questions: Sequence[AskedQuestion], turns: Collection[int]) -> dict[str, float]:
    """Column -> percent, or points, of one run's questions at some turns; none of none."""
    found = summary([one for one in questions if one.turn in turns])
    if not found:
        return {}
    shares = {name: 100 * found[name] for name in ("best", "chance", "repeated")}
    return {**shares, "above": shares["best"] - shares["chance"]}


def _mean(runs: Sequence[dict[str, float]], key: str) -> Cell:
    return mean_of_runs([run.get(key) for run in runs], 1, signed=key == "above")
