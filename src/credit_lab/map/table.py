"""The map as a table: predictions, outcomes, and how often predictions were right."""

import re
from collections.abc import Sequence

import numpy as np

from analysis.table import Cell, Column, Number, Range, Row, Table
from credit_lab.map.exact import AHEAD, NONE
from credit_lab.map.job import OWN, SHARED
from credit_lab.map.outcomes import GRPO, PCQC, TERMINAL, TrainedCell, decided

NAME = "map"
RULES = {"predicted": "rule", "predicted_scaled": "scaled rule"}
RATES = {SHARED: "one rate", OWN: "own rates"}
LABELS = {
    "noise": "noise",
    "turns": "turns",
    "options": "options",
    "question_group": "G_Q",
    "scorer_error": "scorer's error",
    "patient_error": "patient's error",
}
EXACT = {
    "best_over_average": "Best − average",
    "headroom": "Headroom",
    "fidelity": "Fidelity",
    "advantage": "Advantage",
}
COLUMNS = (
    Column("cell", "Cell", numeric=False),
    *(Column(key, title, "Exact") for key, title in EXACT.items()),
    Column("predicted", "Rule", "Predicted", numeric=False),
    Column("predicted_scaled", "Scaled", "Predicted", numeric=False),
    Column("grpo", "GRPO"),
    Column("pcqc", "PCQC"),
    Column("ahead_of_grpo", "PCQC − GRPO"),
    Column("ahead_of_grpo", "95% CI"),
    Column("outcome", "Came out", numeric=False),
    Column("own_rates", "PCQC − GRPO", "Own rates"),
    Column("own_rates", "95% CI", "Own rates"),
    Column("own_rates_outcome", "Came out", "Own rates", numeric=False),
    Column("ahead_of_terminal", "PCQC − Terminal-only"),
    Column("ahead_of_terminal", "95% CI"),
    Column("bayes_ahead_of_terminal", "The same by Bayes' answers"),
    Column("bayes_ahead_of_terminal", "95% CI"),
)


def build(cells: Sequence[TrainedCell]) -> Table:
    """Every cell of the map."""
    first = cells[0]
    caption = (
        "Linear policies on the exact posterior, no transformers. Differences in points of "
        f"accuracy after the cost of {first['budget']} full updates of PCQC, over "
        f"{len(first.runs(GRPO))} paired "
        "runs. Best − average: accuracy of the Bayes diagnosis after a best question less that "
        "after an average one. Headroom: after best less after random questions until the last "
        "turn. Fidelity: share of the better question's lead that its credit gets. Advantage: "
        "headroom times fidelity. Predicted before training, PCQC against GRPO. Came out: decided "
        f"by the 95% t interval and the margin of {first['rule']['margin']:g} points. Own rates: "
        "each method with its best learning rate on the pilot. By Bayes' answers: what the "
        "questions are worth, whatever the policy makes of them."
    )
    rows = tuple(_row(cell) for cell in cells)
    return Table(NAME, "Where does question credit pay?", caption, COLUMNS, rows, _notes(cells))


def _row(cell: TrainedCell) -> Row:
    shared, own, terminal, bayes = (
        (Number(difference.mean, signed=True), Range(difference.low, difference.high))
        for difference in (
            cell.ahead_of(GRPO),
            cell.ahead_of(GRPO, OWN),
            cell.ahead_of(TERMINAL),
            cell.ahead_of(TERMINAL, measure="bayes"),
        )
    )
    cells: tuple[Cell, ...] = (
        in_words(cell.name),
        *(Number(cell.number(key)) for key in EXACT),
        *(cell["prediction"][rule] for rule in RULES),
        *(Number(float(np.mean(cell.runs(method)))) for method in (GRPO, PCQC)),
        *(*shared, cell.outcome()),
        *(*own, cell.outcome(rates=OWN)),
        *(*terminal, *bayes),
    )
    return Row(cell.name, cells)


def _notes(cells: Sequence[TrainedCell]) -> tuple[str, ...]:
    """How often each rule is right, by learning rates and budget, and how often one answer is."""
    notes = []
    for rates, words in RATES.items():
        for budget in cells[0]["budgets"][1:]:
            outcomes = decided(cells, rates, budget)
            right = ", ".join(
                f"{name} {sum(c['prediction'][rule] == outcomes.get(c.name) for c in cells)}"
                for rule, name in RULES.items()
            )
            always = ", ".join(
                f"always '{outcome}' {[*outcomes.values()].count(outcome)}"
                for outcome in (AHEAD, NONE)
            )
            notes.append(
                f"Right, {words}, budget {budget}: {right} of {len(outcomes)} decided cells of "
                f"{len(cells)}; {always}."
            )
    return tuple(notes)


def in_words(name: str) -> str:
    """`noise-0.1_turns-4` as `noise 0.1, turns 4`."""
    changes = re.findall(r"([a-z][a-z_]*)-([\d.]+)", name)
    return ", ".join(f"{LABELS[setting]} {value}" for setting, value in changes)
