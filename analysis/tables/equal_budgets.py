"""What each method has learned for the same consultations, or the same time of the devices."""

import itertools

from analysis.collected import Collected
from analysis.statistics.estimates import over_runs
from analysis.table import MISSING, Cell, Column, Number, Row, Table, number

NAME = "equal_budgets"
# Cumulative column of the updates -> what it counts, and the digits to print.
COSTS = {"trajectories": ("consultations", 0), "device_hours": ("device-hours", 4)}
SHARES = (1 / 3, 2 / 3, 1.0)
COLUMNS = (
    Column("budget", "Budget", numeric=False),
    Column("method", "Method", numeric=False),
    Column("accuracy", "Acc. (%)"),
    Column("turns", "Q/ep."),
    Column("update", "Update"),
)


def build(collected: Collected) -> Table:
    """Every RL method and control at three budgets of each kind."""
    development = collected.benchmarks[collected.study.development].title
    rows = [row for cost in COSTS for row in _rows(collected, cost)]
    caption = (
        f"Validation on {development}, as recorded in training: every run's last checkpoint within "
        "the budget, mean ± sample standard deviation over runs. The largest budget of a kind is "
        "the least that any run spent to its last checkpoint; the others are thirds of it. "
        "Consultations are complete ones of training; device-hours exclude Shared SFT and "
        "validation. A dash: a run had no checkpoint yet."
    )
    return Table(NAME, "Accuracy at equal budgets.", caption, COLUMNS, tuple(rows))


def _rows(collected: Collected, cost: str) -> list[Row]:
    """Methods at shares of the largest budget of a kind that every run reaches."""
    rl = [m for m in collected.methods() if collected.study.method(m).kind == "rl"]
    if not rl:
        return []
    spent = {(m, run): _spent(collected, m, run, cost) for m in rl for run in collected.runs(m)}
    most = min(by_update[max(by_update)] for by_update in spent.values())
    what, digits = COSTS[cost]
    rows = []
    for share, method in itertools.product(SHARES, rl):
        budget = share * most
        letters = collected.runs(method)
        reached = [_last_within(spent[method, run], budget) for run in letters]
        cells: list[Cell] = [MISSING] * 3
        if None not in reached:
            pairs = list(zip(letters, reached, strict=True))
            accuracy, turns = (
                [collected.curve(method, run, "validation", metric)[at] for run, at in pairs]
                for metric in ("accuracy", "turns")
            )
            cells = [
                number(over_runs([100 * value for value in accuracy]), 2),
                number(over_runs(turns), 3),
                number(over_runs(reached), 0),
            ]
        first = method == rl[0]
        label = f"{Number(budget, digits=digits).text()} {what}" if first else ""
        key = f"{cost}:{share:.2f}:{method}"
        row = (label, collected.title(method), *cells)
        rows.append(Row(key, row, rule=first, strong=method == "pcqc"))
    return rows


def _spent(collected: Collected, method: str, run: str, cost: str) -> dict[int, float]:
    """Validated update -> what the run had spent by then."""
    validated = collected.curve(method, run, "validation", "accuracy").index
    spent = collected.curve(method, run, "update", cost)
    return {int(update): float(spent[update]) for update in validated}


def _last_within(spent: dict[int, float], budget: float) -> int | None:
    """The last validated update that a budget allows; None where it allows none."""
    return max((u for u, cost in spent.items() if cost <= budget * (1 + 1e-9)), default=None)
