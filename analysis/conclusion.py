"""What a study, or one of its methods, answers: sentences computed from its numbers."""

from analysis.budgets import START
from analysis.claims import Claim, Comparison, claims, compared
from analysis.collected import Collected
from analysis.load import evaluated_methods, load_evaluated
from analysis.notices import captioned, on_base_models
from analysis.statistics.verdicts import LEVEL
from analysis.table import Number, Probability, Range, listed
from analysis.tables.ablations import parent
from analysis.tables.question_quality import ALL, first_questions
from pcqc.clinic.quality import EARLY
from pcqc.errors import UserError
from pcqc.study import Study

SUPPORTED, IN_PART, CONTRADICTED = "supported", "supported in part", "contradicted"


def conclusion(collected: Collected) -> list[str]:
    """Who diagnoses best and asks best, and which of the paper's claims hold here."""
    judged = claims(collected)
    sentences = [_by_accuracy(collected.pooled()), *_by_questions(collected)]
    # What a study with one run of each method cannot say.
    if any(comparison.single for claim in judged for comparison in claim.comparisons):
        full = " To compare them: make results STUDY=clinic-full."
        sentences.append(
            "One run of each method shows that all of this works and decides nothing between "
            "methods: intervals cover cases alone." + (full if collected.study.synthetic else "")
        )
    outcomes = [_outcome(claim) for claim in judged]
    counts = [
        f"{outcomes.count(outcome) or 'none'} {outcome}"
        for outcome in (SUPPORTED, IN_PART, CONTRADICTED, "undecided", "not tested")
        if outcome in outcomes or outcome in (SUPPORTED, CONTRADICTED)
    ]
    sentences.append(f"Of the paper's {len(judged)} claims, {listed(counts)} here.")
    return [*sentences, *map(_sentence, judged)]


def _by_accuracy(collected: Collected) -> str:
    """Methods from most to least accurate."""
    names = list(collected.benchmarks)
    means = {
        method: [collected.average(method, names, m).mean for m in ("accuracy", "turns")]
        for method in collected.methods("method")
    }
    first, *others = [
        f"{collected.title(method)} ({Number(accuracy).text()}% with {Number(turns).text()} "
        "questions)"
        for method, (accuracy, turns) in sorted(means.items(), key=lambda item: -item[1][0])
    ]
    later = f", then {listed(others)}" if others else ""
    return (
        f"Most diagnoses are right with {first}{later}, averaged over {len(names)} benchmarks"
        f"{on_base_models(collected.base_models)}."
    )


def _by_questions(collected: Collected) -> list[str]:
    """Methods and controls from most to least best questions, where a clinic knows them."""
    if not collected.study.clinic:
        return []
    table = first_questions(collected)
    shares = {}
    for method in collected.methods():
        best, chance = (table.cell(f"{method}:{ALL}", key) for key in ("best", "chance"))
        if isinstance(best, Number) and isinstance(chance, Number):
            shares[method] = best, chance.value
    if not shares:
        return []
    ordered = sorted(shares.items(), key=lambda item: -item[1][0].value)
    texts = [f"{best.text()}% with {collected.title(m)}" for m, (best, _) in ordered]
    by_chance = sorted(chance for _, chance in shares.values())
    return [
        f"Share of best questions among the first {EARLY}: {listed(texts)}; by chance "
        f"{by_chance[0]:.0f} to {by_chance[-1]:.0f}%."
    ]


def _outcome(claim: Claim) -> str:
    """A claim's verdict over all its comparisons."""
    verdicts = {comparison.judged.verdict for comparison in claim.comparisons}
    if not verdicts:
        return "not tested"
    if "contradicted" in verdicts:
        return CONTRADICTED
    if "supported" in verdicts:
        return SUPPORTED if len(verdicts) == 1 and not claim.missing else IN_PART
    return "undecided"


def _sentence(claim: Claim) -> str:
    """A claim's comparisons, each with interval and verdict."""
    texts = [
        f"{comparison.judged.verdict} for {_difference(comparison)}{_although(comparison)}"
        for comparison in claim.comparisons
    ]
    return f"{claim.text.rstrip('.')}: {'; '.join(texts) or 'not tested'}."


def _although(comparison: Comparison) -> str:
    """Why a difference is undecided whose own interval leaves out zero; else nothing."""
    effect, judged = comparison.effect, comparison.judged
    if judged.verdict != "undecided" or comparison.single or effect.low <= 0 <= effect.high:
        return ""
    if judged.p >= LEVEL:
        return f" (Holm p = {Probability(judged.p).text()})"
    return " (not so on each base model)"


def _difference(comparison: Comparison, colon: str = "") -> str:
    """`PCQC − GRPO +1.96 pp [−1.95, +5.95]`."""
    effect = comparison.effect
    difference = Number(effect.difference, signed=True).text()
    interval = Range(effect.low, effect.high).text()
    return f"{comparison.label}{colon} {difference} {comparison.unit} {interval}"


def answer_of(study: Study, method: str) -> list[str]:
    """A method's accuracy and turns, and its difference to its parent or to Shared SFT.

    Raises:
        UserError: a run of the method is not evaluated.
    """
    ready = evaluated_methods(study)
    if method not in ready:
        raise UserError(
            f"{method} of study '{study.name}' is not evaluated yet; run `snakemake --cores 2 "
            f"{method} --config study={study.name}`"
        )
    rival = parent(study, method)[0] if study.method(method).on_demand else START
    rivals = [rival] if rival in ready and rival != method else []
    runs = load_evaluated(study, [*rivals, method])
    names = list(study.benchmarks)
    accuracy, turns = (
        Number(runs.average(method, names, metric).mean).text() for metric in ("accuracy", "turns")
    )
    count = len(runs.runs(method))
    means = (
        f"{runs.title(method)}: {accuracy}% right with {turns} questions, over {len(names)} "
        f"benchmarks and {count} run{'' if count == 1 else 's'}."
    )
    sentences = [captioned(study, means)]
    pairs = {"accuracy": (method, rival), "turns": (rival, method)}  # turns: see `compared`
    for metric, pair in pairs.items() if rivals else ():
        comparison = compared(runs, *pair, names, metric)
        alone = " One run of each: the interval covers cases alone." if comparison.single else ""
        sentences.append(f"{_difference(comparison, ':')}.{alone}")
    return sentences
