"""What the paper reports beside its claims, as far as a study can repeat it."""

from collections.abc import Iterator

from analysis.claims import compared
from analysis.collected import Collected
from analysis.continuation import main_policy
from analysis.notices import on_base_models
from analysis.published import published
from analysis.statistics.intervals import Effect, effect_over_cases, effect_over_runs
from analysis.statistics.verdicts import judge
from analysis.table import Cell, Column, Row, Table, with_interval
from pcqc_study.study_file import START

# Key in `published.yaml` -> what the paper says, method, rival, metric, and on which benchmarks:
# the method is more accurate than its rival, or has fewer questions or tokens.
COMPARED = {
    "turns_executed_local": (
        "PCQC asks less than Executed-local.", "pcqc", "executed_local", "turns", "primary",
    ),
    "turns_same_state_q1": (
        "PCQC asks less than Same-State-Q1.", "pcqc", "same_state_q1", "turns", "all",
    ),
    "turns_start": ("GRPO asks more than Shared SFT.", START, "grpo", "turns", "all"),
    "tokens": (
        "PCQC's doctor writes less than GRPO's.", "pcqc", "grpo", "actor_tokens", "primary",
    ),
    "group_size": (
        "GRPO's larger group gains over Terminal-only.",
        "grpo", "terminal_only", "accuracy", "primary",
    ),
    "executed_local": (
        "Executed-local gains over Terminal-only.",
        "executed_local", "terminal_only", "accuracy", "primary",
    ),
    "independent": (
        "PCQC leads GRPO on cases of another source.", "pcqc", "grpo", "accuracy", "independent",
    ),
}  # fmt: skip
_RIVALS = {"uniform": "a random question", "executed": "the executed question"}
UNITS = {"accuracy": "pp", "turns": "turns", "actor_tokens": "tokens"}


def build(collected: Collected) -> Table:
    """A row for each report that the study can repeat, judged together."""
    reports, margin = list(_reports(collected)), collected.study.equivalence
    margins = {"pp": margin.points, "turns": margin.turns}
    verdicts = judge([r[-1] for r in reports], [margins.get(r[2], 0.0) for r in reports])
    rows = []
    for (key, text, unit, effect), judged in zip(reports, verdicts, strict=True):
        numbers = map(with_interval, (effect, *effect.by_base.values()))
        cells: tuple[Cell, ...] = (text, published().further_claims[key], unit, *numbers)
        rows.append(Row(key, (*cells, judged.verdict)))
    bases = len(collected.on_each_base)
    of_each = range(1, bases + 1) if bases > 1 else ()
    columns = (
        Column("report", "The paper reports", numeric=False),
        Column("published", "There", numeric=False),
        Column("unit", "Unit", numeric=False),
        Column("here", "Here"),
        *(Column(f"base_model_{n}", f"Base model {n}") for n in of_each),
        Column("verdict", "Verdict", numeric=False),
    )
    development = collected.benchmarks[collected.study.development].title
    caption = (
        "Differences in the direction that the paper reports, of means over benchmarks and runs"
        f"{on_base_models(bases)}, with 95% intervals, each of itself alone. Runs are at their "
        f"checkpoints with the highest accuracy on {development}. Turns: questions of a "
        "consultation. Tokens: of the doctor in a consultation. Consultations: of training up to "
        "that checkpoint. Of grounded answers cases alone are random. Verdicts are those of the "
        "claims, with Holm's correction over these rows."
    )
    title = f"What else the paper reports: {collected.study.title}."
    return Table("further_claims", title, caption, columns, tuple(rows))


def _reports(collected: Collected) -> Iterator[tuple[str, str, str, Effect]]:
    """Key, the paper's words, unit, and the effect; positive as the paper has it."""
    everywhere, primary = list(collected.benchmarks), collected.primary
    independent = [name for name in everywhere if name not in primary]
    names = {"all": everywhere, "primary": primary, "independent": independent}
    for key, (text, method, rival, metric, where) in COMPARED.items():
        if {method, rival} <= set(collected.methods()) and names[where]:
            comparison = compared(collected, method, rival, names[where], metric)
            yield key, text, UNITS[metric], comparison.effect
    if {"pcqc", "grpo"} <= set(collected.methods()) and (effect := _consultations(collected)):
        text = "PCQC's reported checkpoint takes fewer consultations than GRPO's."
        yield "consultations", text, "consultations", effect
    if collected.study.continuation:
        for rival in ("uniform", "executed"):
            gains = [main_policy(each).grounded_gains(rival) for each in collected.on_each_base]
            if min(map(len, gains)) > 1:
                text = f"The highest utility beats {_RIVALS[rival]}, among grounded answers."
                yield f"grounded_{rival}", text, "pp", effect_over_cases(gains, reach=100)


def _consultations(collected: Collected) -> Effect | None:
    """How many fewer PCQC's runs had than GRPO's at their checkpoints; over runs.

    None where all had as many, such as runs with one checkpoint: that is a setting, no finding.
    """
    grpo, pcqc = (
        [[b.spent(m, run, "trajectories") for run in b.runs(m)] for b in collected.on_each_base]
        for m in ("grpo", "pcqc")
    )
    counts = {count for runs in [*grpo, *pcqc] for count in runs}
    return effect_over_runs(grpo, pcqc, reach=max(counts)) if len(counts) > 1 else None
