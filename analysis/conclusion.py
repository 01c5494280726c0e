"""What a study, or one of its methods, answers: sentences computed from its numbers."""

from analysis.budgets import START
from analysis.claims import Claim, Comparison, claims, compared
from analysis.collected import Collected
from analysis.load import evaluated_methods, load_evaluated
from analysis.notices import captioned, on_base_models
from analysis.statistics.crossed_intervals import MOST_RUNS
from analysis.statistics.verdicts import ALONE, DECIDED, UNDECIDED
from analysis.table import Number, Probability, Range, listed
from analysis.tables.ablations import parent
from analysis.tables.question_quality import ALL, compare_first_questions
from pcqc.clinic.quality import EARLY
from pcqc.errors import UserError
from pcqc.study import Study

SUPPORTED, CONTRADICTED = DECIDED
IN_PART = "supported in part"


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
        sentences.append(f"How sure: {'; '.join(texts)}.")
    outcomes = [_outcome(claim) for claim in judged]
    counts = [
        f"{outcomes.count(outcome) or 'none'} {outcome}"
        for outcome in dict.fromkeys([*DECIDED, *outcomes])
    ]
    of_claims = f"Of the paper's {len(judged)} claims, {listed(counts)}."
    if any(comparison.single for comparison in main) and collected.study.synthetic:
        of_claims += " To compare several runs: make results STUDY=clinic-full."
    return [*sentences, of_claims]


def _by_questions(collected: Collected) -> list[str]:
    """Methods and controls from most to least best questions, where a clinic knows them."""
    if not collected.study.clinic:
        return []
    judged, shares = compare_first_questions(collected), {}
    for method in collected.methods():
        best, chance = (judged.table.cell(f"{method}:{ALL}", key) for key in ("best", "chance"))
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
    for label, effect in list(judged.effects.items())[:1]:
        difference = Number(effect.difference, digits=1, signed=True).text()
        sentence += f"; {label} {difference} pp {Range(effect.low, effect.high, 1).text()}"
    return [f"{sentence}."]


def _outcome(claim: Claim) -> str:
    """A claim's verdict over all its comparisons."""
    verdicts = [comparison.judged.verdict for comparison in claim.comparisons]
    if not verdicts:
        return "not tested"
    if contradicted := [v for v in verdicts if v.startswith(CONTRADICTED)]:
        return contradicted[0]
    supported = [v for v in verdicts if v.startswith(SUPPORTED)]
    if not supported:
        return verdicts[0]
    if len(supported) < len(verdicts) or claim.missing:
        return IN_PART
    return max(supported, key=len)  # the weaker of "supported" and "supported alone"


def _judgement(comparison: Comparison) -> str:
    """A comparison with interval, verdict, and what the verdict rests on."""
    effect, judged = comparison.effect, comparison.judged
    text = f"{_difference(comparison)}, {judged.verdict}"
    if judged.verdict.endswith(ALONE):
        return f"{text} (Holm p over all comparisons {Probability(judged.p).text()})"
    if judged.verdict == UNDECIDED and effect.runs:
        needed = effect.runs_to_decide
        runs = f"about {needed} runs" if needed else f"not even {MOST_RUNS} runs"
        return f"{text} ({runs} of each would decide a difference of this size)"
    return text


def _difference(comparison: Comparison, colon: str = "") -> str:
    """`PCQC − GRPO +1.96 pp [−1.95, +5.95] (3 + 3 runs, 400 cases)`."""
    effect = comparison.effect
    difference = Number(effect.difference, signed=True).text()
    interval = Range(effect.low, effect.high).text()
    return f"{comparison.label}{colon} {difference} {comparison.unit} {interval} ({comparison.n})"


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
