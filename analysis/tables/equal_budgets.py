"""What each method has learned for equal consultations, equal tokens or equal device time."""

from collections.abc import Mapping

from analysis.budgets import COSTS, COUNTED, RULE, Budgets, budgets, trained
from analysis.collected import Collected
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Row, Table, number

NAME = "equal_budgets"
# Metric of a validation -> its column, the factor to the printed unit, and digits.
VALIDATED = {
    "accuracy": (Column("accuracy", "Acc. (%)"), 100.0, 2),
    "best_questions": (Column("best", "Best questions (%)"), 100.0, 1),
    "turns": (Column("turns", "Q/ep."), 1.0, 3),
}
FIRST = (Column("budget", "Budget", numeric=False), Column("method", "Method", numeric=False))
LAST = (
    Column("update", "Update"),
    Column("trajectories", "Consultations", "Spent"),
    Column("sampled_tokens", "Tokens (million)", "Spent"),
    Column("device_hours", "Device-hours", "Spent"),
)


def build(collected: Collected) -> Table:
    """Every RL method and control at up to three budgets of each kind."""
    development = collected.benchmarks[collected.study.development].title
    metrics = {m: column for m, (column, *_) in VALIDATED.items() if m in collected.updates}
    kinds = {cost: found for cost in COSTS if (found := budgets(collected, cost))}
    rows = [row for cost in kinds for row in _rows(collected, kinds, cost, list(metrics))]
    quality = (
        " Best questions: share of best ones among the first three answered questions of each "
        "consultation."
        if "best_questions" in metrics
        else ""
    )
    caption = (
        f"Validation on {development}, as recorded in training: every run's last checkpoint within "
        f"the budget, mean ± sample standard deviation over runs.{quality} Spent: by that "
        f"checkpoint, mean over runs. {RULE} {COUNTED} A dash: a run had no checkpoint yet."
    )
    columns = (*FIRST, *metrics.values(), *LAST)
    return Table(NAME, "Accuracy at equal budgets.", caption, columns, tuple(rows))


def _rows(
    collected: Collected, kinds: Mapping[str, Budgets], cost: str, metrics: list[str]
) -> list[Row]:
    """Methods at the budgets of a kind."""
    rows, methods = [], trained(collected)
    for budget, amount in kinds[cost].amounts.items():
        for method in methods:
            letters = collected.runs(method)
            reached = {run: kinds[cost].reached(method, run, budget) for run in letters}
            cells: list[Cell] = [MISSING] * (len(metrics) + len(LAST))
            if None not in reached.values():
                cells = _cells(collected, kinds, method, reached, metrics)
            first = method == methods[0]
            label = f"{COSTS[cost].number(amount).text()} {COSTS[cost].unit}" if first else ""
            row = (label, collected.title(method), *cells)
            rows.append(Row(f"{cost}:{budget}:{method}", row, first, method == "pcqc"))
    return rows


def _cells(
    collected: Collected,
    kinds: Mapping[str, Budgets],
    method: str,
    reached: Mapping[str, int],
    metrics: list[str],
) -> list[Cell]:
    """A method at one update of each run: what validation found, and what was spent."""
    cells: list[Cell] = []
    for metric in metrics:
        _, factor, digits = VALIDATED[metric]
        curves = {run: collected.curve(method, run, "validation", metric) for run in reached}
        values = [factor * curves[run].get(at, float("nan")) for run, at in reached.items()]
        # A validation in which nothing was asked has no share of best questions.
        known = [value for value in values if value == value]
        cells.append(number(over_runs(known), digits) if known else MISSING)
    cells.append(number(over_runs(list(reached.values())), 0))
    for cost in ("trajectories", "sampled_tokens", "device_hours"):
        spent = kinds[cost].spent if cost in kinds else {}
        amounts = [spent[method, run][at] for run, at in reached.items() if spent]
        mean = sum(amounts) / len(amounts) if amounts else None
        cells.append(MISSING if mean is None else COSTS[cost].number(mean))
    return cells
