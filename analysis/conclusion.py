"""What a study, or one of its methods, answers: sentences computed from its numbers."""

from collections.abc import Sequence
from typing import Any

from analysis.claims import Claim, Comparison, claims, compared
from analysis.collected import Collected
from analysis.load import load_methods
from analysis.notices import captioned, on_base_models
from analysis.statistics.intervals import MOST_RUNS
from analysis.statistics.verdicts import CONTRARY, DECIDED, NOMINAL, UNDECIDED
from analysis.table import Number, Probability, difference, listed
from analysis.table_formats import plain, plain_rows
from analysis.tables import build
from analysis.tables.ablations import parent
from analysis.tables.question_quality import ALL, by_base, effects_of_credit
from analysis.tables_and_figures import TABLES
from pcqc_base.errors import UserError
from pcqc_clinic.quality import EARLY
from pcqc_study.study_file import START, Study

SUPPORTED, CONTRADICTED = DECIDED
IN_PART = "supported in part"
CASES_ALONE = " One run of each: the interval covers cases alone."


def whole_answer(collected: Collected) -> dict[str, Any]:
    """What `pcqc answer STUDY` prints.

    Returns:
        `study`: its name; `sentences`: the conclusion; `methods`: the rows of all methods, raw
        numbers by column; `table`: the same for a terminal, empty where no method has runs.
    """
    shown = not TABLES["overview"].missing(collected.study)
    table = build("overview", collected) if shown else None
    return {
        "study": collected.study.name,
        "sentences": conclusion(collected),
        "methods": plain_rows(table) if table else [],
        "table": plain(table) if table else "",
    }


def conclusion(collected: Collected) -> list[str]:
    """A few sentences: what was seen, how sure that is, and what questions the doctors ask.

    The table of claims and the table of methods (`tables.overview`) have the same numbers.
    """
    judged = claims(collected)
    return [
        _by_accuracy(collected.pooled()),
        *_how_sure(collected, judged),
        *_by_questions(collected),
    ]


def details(collected: Collected) -> list[str]:
    """One sentence on each of the paper's claims: its comparisons with intervals and verdicts."""
    sentences = []
    for claim in claims(collected):
        outcome = "; ".join(map(_judgement, claim.comparisons)) or claim.missing or "not tested"
        sentences.append(f"{claim.text.rstrip('.')}: {outcome}.")
    return sentences


def _by_accuracy(collected: Collected) -> str:
    """All methods and controls, from most to least accurate."""
    names = list(collected.benchmarks)
    means = {m: collected.average(m, names).mean for m in collected.methods()}
    ranked = [
        f"{collected.title(method)} {Number(mean, digits=1).text()}%"
        for method, mean in sorted(means.items(), key=lambda item: -item[1])
    ]
    return (
        f"Right diagnoses: {listed(ranked)}, averaged over {len(names)} benchmarks"
        f"{on_base_models(collected.base_models)}."
    )


def _how_sure(collected: Collected, judged: list[Claim]) -> list[str]:
    """PCQC against GRPO with intervals, and how many of the paper's claims hold."""
    sentences = []
    if main := [claim.comparisons[0] for claim in judged[:2] if claim.comparisons]:
        texts = [f"{_difference(comparison)}, {comparison.judged.verdict}" for comparison in main]
        alone = CASES_ALONE * any(comparison.single for comparison in main)
        sentences.append(f"How sure: {'; '.join(texts)}.{alone}")
    outcomes = [_outcome(claim) for claim in judged]
    counts = [
        _counted(outcomes.count(outcome), outcome)
        for outcome in dict.fromkeys([*DECIDED, *outcomes])
    ]
    of_claims = f"Of the paper's {len(judged)} claims, {listed(counts)}."
    if any(comparison.single for comparison in main) and collected.study.synthetic:
        of_claims += " To compare several runs: make results STUDY=clinic-full."
    return [*sentences, of_claims]


def _counted(number: int, outcome: str) -> str:
    """How many claims have an outcome: "none supported", "2 differ by base model"."""
    return f"{number or 'none'} {outcome if number == 1 else outcome.replace('differs', 'differ')}"


def _by_questions(collected: Collected) -> list[str]:
    """Methods and controls from most to least best questions, where a clinic knows them."""
    if not collected.study.clinic:
        return []
    table, shares = by_base(collected), {}
    for method in collected.methods():
        best, chance = (table.cell(f"{method}:{ALL}", key) for key in ("best", "chance"))
        if isinstance(best, Number) and isinstance(chance, Number):
            shares[method] = best.value, chance.value
    if not shares:
        return []
    ordered = sorted(shares.items(), key=lambda item: -item[1][0])
    texts = [f"{collected.title(m)} {best:.0f}%" for m, (best, _) in ordered]
    by_chance = sorted(chance for _, chance in shares.values())
    sentence = (
        f"Best possible questions among the first {EARLY}: {listed(texts)}; by chance "
        f"{by_chance[0]:.0f} to {by_chance[-1]:.0f}%"
    )
    for label, effect in list(effects_of_credit(collected).items())[:1]:
        points, interval = (cell.text() for cell in difference(effect, digits=1))
        sentence += f"; {label} {points} pp {interval} over runs"
    return [f"{sentence}."]


def _outcome(claim: Claim) -> str:
    """A claim's verdict over all its comparisons."""
    verdicts = [comparison.judged.verdict for comparison in claim.comparisons]
    if not verdicts:
        return "not tested"
    if contradicted := [v for v in verdicts if v in (CONTRADICTED, CONTRARY)]:
        return contradicted[0]
    supported = [v for v in verdicts if v in (SUPPORTED, NOMINAL)]
    if not supported:
        return verdicts[0]
    if len(supported) < len(verdicts) or claim.missing:
        return IN_PART
    return NOMINAL if NOMINAL in supported else SUPPORTED


def _judgement(comparison: Comparison) -> str:
    """A comparison with interval, verdict, and what the verdict rests on."""
    effect, judged = comparison.effect, comparison.judged
    text = f"{_difference(comparison)}, {judged.verdict}"
    if judged.verdict in (NOMINAL, CONTRARY):
        return f"{text} (Holm p over all comparisons {Probability(judged.p).text()})"
    if judged.verdict == UNDECIDED and effect.runs:
        needed = effect.runs_to_decide
        runs = f"about {needed} runs" if needed else f"not even {MOST_RUNS} runs"
        runs += " of each on each base model" if len(effect.by_base) > 1 else " of each"
        return f"{text} ({runs} would decide a difference of this size)"
    return text


def _difference(comparison: Comparison, colon: str = "") -> str:
    """`PCQC − GRPO +1.96 pp [−1.95, +5.95] (3 + 3 runs, 400 cases)`."""
    value, interval = (cell.text() for cell in difference(comparison.effect))
    return f"{comparison.label}{colon} {value} {comparison.unit} {interval} ({comparison.n})"


def answer(study: Study, methods: Sequence[str]) -> dict[str, Any]:
    """What some methods of a study answer.

    Returns:
        `methods`: name -> title, mean `accuracy` in percent and `turns` over `benchmarks` and
        `runs`; `differences`, each with its 95 % interval: of every method to the method that it is
        a variation of, else to Shared SFT, and of the first to each other.

    Raises:
        UserError: a run of a method is neither evaluated here nor collected.
    """
    rivals = {
        name: parent(study, name)[0] if study.method(name).on_demand else START for name in methods
    }
    runs = load_methods(study, list(dict.fromkeys([*methods, *rivals.values()])))
    if absent := [name for name in methods if name not in runs.methods()]:
        raise UserError(
            f"{absent[0]} of study '{study.name}' is not evaluated yet; run `snakemake --cores 2 "
            f"{absent[0]} --config study={study.name}`"
        )
    names = list(study.benchmarks)
    means = {
        name: {
            "title": runs.title(name),
            **{metric: runs.average(name, names, metric).mean for metric in ("accuracy", "turns")},
            "benchmarks": len(names),
            "runs": len(runs.runs(name)),
        }
        for name in methods
    }
    pairs = [(a, b) for a, b in rivals.items() if a != b and b in runs.methods()]
    pairs += [(methods[0], other) for other in methods[1:] if (methods[0], other) not in pairs]
    differences = []
    for a, b in pairs:
        # Turns: see `compared`.
        for metric, pair in {"accuracy": (a, b), "turns": (b, a)}.items():
            comparison = compared(runs, *pair, names, metric)
            differences.append({"a": a, "b": b, "metric": metric} | _as_data(comparison))
    return {"study": study.name, "methods": means, "differences": differences}


def _as_data(comparison: Comparison) -> dict[str, Any]:
    effect = comparison.effect
    return {
        "label": comparison.label,
        "difference": effect.difference,
        "low": effect.low,
        "high": effect.high,
        "unit": comparison.unit,
        "one_run_each": comparison.single,
        "text": _difference(comparison, ":"),
    }


def answer_of(study: Study, *methods: str) -> list[str]:
    """What `answer` returns, in sentences."""
    data, sentences = answer(study, methods), []
    for means in data["methods"].values():
        accuracy, turns = (Number(means[metric]).text() for metric in ("accuracy", "turns"))
        plural = "" if means["runs"] == 1 else "s"
        text = (
            f"{means['title']}: {accuracy}% right with {turns} questions, over "
            f"{means['benchmarks']} benchmarks and {means['runs']} run{plural}."
        )
        sentences.append(captioned(study, text))
    for compared_to in data["differences"]:
        alone = CASES_ALONE * compared_to["one_run_each"]
        sentences.append(f"{compared_to['text']}.{alone}")
    return sentences
