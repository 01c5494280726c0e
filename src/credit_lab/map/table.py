"""The map as a table: predictions, what came out, and how often they were right."""

from collections.abc import Sequence

from analysis.table import Cell, Column, Number, Range, Row, Table
from credit_lab.map.outcomes import (
    AHEAD,
    GRPO,
    NONE,
    OWN,
    RULES,
    SHARED,
    TERMINAL,
    Trained,
    hits,
)

NAME = "map"
IN_WORDS = {SHARED: "one rate", OWN: "own rates"}
LABELS = {
    "noise": "noise",
    "turns": "turns",
    "options": "options",
    "question_group": "G_Q",
    "scorer_error": "scorer's error",
    "patient_error": "patient's error",
}
COLUMNS = (
    Column("cell", "Cell", numeric=False),
    Column("best_over_average", "Best − average", "Exact"),
    Column("headroom", "Headroom", "Exact"),
    Column("fidelity", "Fidelity", "Exact"),
    Column("advantage", "Advantage", "Exact"),
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


def build(cells: Sequence[Trained]) -> Table:
    """Every cell of the map."""
    first = cells[0]
    runs = len(first.runs(GRPO, SHARED, "accuracy"))
    caption = (
        "Linear policies on the exact posterior, no transformers. Differences in points of "
        f"accuracy after the cost of {first['budget']} full updates of PCQC, over {runs} paired "
        "runs. Best − average: accuracy of the Bayes diagnosis after a best question less that "
        "after an average one. Headroom: after best less after random questions until the last "
        "turn. Fidelity: share of the better question's lead that its credit gets. Advantage: "
        "headroom times fidelity. Predicted before training, PCQC against GRPO. Came out: decided "
        f"by the 95% t interval and the margin of {first['rule']['margin']:g} points. Own rates: "
        "each method with its best learning rate on the pilot. By Bayes' answers: what the "
        "questions are worth, whatever the policy makes of them."
    )
    title = "Where does question credit pay?"
    rows = tuple(_row(cell) for cell in cells)
    return Table(NAME, title, caption, COLUMNS, rows, tuple(notes(cells)))


def _row(cell: Trained) -> Row:
    exact = ("best_over_average", "headroom", "fidelity", "advantage")
    numbers: list[Cell] = [Number(cell.number(key)) for key in exact]
    said = [cell["prediction"][rule] for rule in RULES]
    by_bayes = cell.ahead_of(TERMINAL, measure="bayes")
    differences = [cell.ahead_of(GRPO), cell.ahead_of(GRPO, OWN), cell.ahead_of(TERMINAL), by_bayes]
    shared, own, terminal, bayes = (
        [Number(d.mean, signed=True), Range(d.low, d.high)] for d in differences
    )
    outcomes = cell.outcome(), cell.outcome(kind=OWN)
    levels = [Number(cell.mean(GRPO)), Number(cell.mean("pcqc"))]
    rest = [*levels, *shared, outcomes[0], *own, outcomes[1], *terminal, *bayes]
    return Row(cell.name, (in_words(cell.name), *numbers, *said, *rest))


def notes(cells: Sequence[Trained]) -> list[str]:
    """How often each rule was right, by learning rates and budget, and how often one answer is."""
    found = []
    for kind, words in IN_WORDS.items():
        for budget in cells[0]["budgets"][1:]:
            parts = []
            for rule, name in RULES.items():
                one = hits(cells, rule, kind, budget)
                parts.append(f"{name} {one.right}")
            always = f"always '{AHEAD}' {one.always[AHEAD]}, always '{NONE}' {one.always[NONE]}"
            found.append(
                f"Right, {words}, budget {budget}: {', '.join(parts)} of {one.decided} decided "
                f"cells of {len(cells)}; {always}."
            )
    return found


def in_words(name: str) -> str:
    """`noise-0.1_turns-4` as `noise 0.1, turns 4`."""
    pairs = (part.rsplit("-", 1) for part in name.split("_turns"))
    if "_turns" in name:
        noise, turns = name.split("_turns-")
        return f"noise {noise.removeprefix('noise-')}, turns {turns}"
    return ", ".join(f"{LABELS[key]} {value}" for key, value in pairs)
