"""What a study, or one of its methods, answers: sentences computed from its numbers."""

from analysis.budgets import START
from analysis.claims import Claim, Comparison, claims, compared
from analysis.collected import Collected
from analysis.load import evaluated_methods, load_evaluated
from analysis.notices import captioned, on_base_models
from analysis.statistics.verdicts import LEVEL
from analysis.table import Number, Probability, Range, listed
from analysis.tables.ablations import parent
from analysis.tables.question_quality import shares_of_best
from pcqc.clinic.quality import EARLY
from pcqc.errors import UserError
from pcqc.study import Study

SUPPORTED, IN_PART, CONTRADICTED = "supported", "supported in part", "contradicted"


def conclusion(collected: Collected) -> list[str]:
    """Who diagnoses best and asks best, and which of the paper's claims hold here."""
    found = claims(collected)
    return [
        _methods(collected.pooled()),
        *_questions(collected),
        *_limit(collected, found),
        _in_all(found),
        *_claims(found),
    ]


def _limit(collected: Collected, found: list[Claim]) -> list[str]:
    """What a study with one run of each method cannot say."""
    if not any(comparison.single for claim in found for comparison in claim.comparisons):
        return []
    full = " To compare them: make results STUDY=clinic-full." if collected.study.synthetic else ""
    return [
        "One run of each method shows that all of this works and decides nothing between methods: "
        f"the intervals know the cases alone.{full}"
    ]


def _methods(collected: Collected) -> str:
    """Methods from most to least accurate."""
    names = list(collected.benchmarks)
    found = {
        collected.title(method): (
            collected.average(method, names).mean,
            collected.average(method, names, "turns").mean,
        )
        for method in collected.methods("method")
    }
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    texts = [
        f"{title} ({Number(accuracy).text()}% with {Number(turns).text()} questions)"
        for title, (accuracy, turns) in ordered
    ]
    later = f", then {listed(texts[1:])}" if texts[1:] else ""
    return (
        f"Most diagnoses are right with {texts[0]}{later}, averaged over {len(names)} benchmarks"
        f"{on_base_models(collected.base_models)}."
    )


def _questions(collected: Collected) -> list[str]:
    """Methods and controls from most to least best questions, where a clinic knows them."""
    if not collected.study.clinic:
        return []
    ordered = sorted(shares_of_best(collected).items(), key=lambda item: -item[1][0])
    said = [
        f"{Number(best, digits=1).text()}% with {collected.title(m)}" for m, (best, _) in ordered
    ]
    if not said:
        return []
    by_chance = sorted(chance for _, (_, chance) in ordered)
    return [
        f"Best ones among the first {EARLY} questions: {listed(said)}; by chance "
        f"{by_chance[0]:.0f} to {by_chance[-1]:.0f}%."
    ]


def _in_all(found: list[Claim]) -> str:
    """How many claims hold, in whole or in part, and how many do not."""
    outcomes = [_outcome(claim) for claim in found]
    said = [
        f"{outcomes.count(outcome) or 'none'} {outcome}"
        for outcome in (SUPPORTED, IN_PART, CONTRADICTED, "undecided", "not tested")
        if outcome in outcomes or outcome in (SUPPORTED, CONTRADICTED)
    ]
    return f"Of the paper's {len(found)} claims, {listed(said)} here."


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


def _claims(found: list[Claim]) -> list[str]:
    """One sentence per claim of the paper: its comparisons, each with interval and verdict."""
    sentences = []
    for claim in found:
        said = [
            f"{comparison.judged.verdict} for {_difference(comparison)}{_although(comparison)}"
            for comparison in claim.comparisons
        ]
        text = claim.text.rstrip(".")
        sentences.append(f"{text}: {'; '.join(said) if said else 'not tested'}.")
    return sentences


def _although(found: Comparison) -> str:
    """Why a difference is undecided whose own interval leaves out zero; else nothing."""
    effect, judged = found.effect, found.judged
    if judged.verdict != "undecided" or found.single or effect.low <= 0 <= effect.high:
        return ""
    if judged.p >= LEVEL:
        return f" (among all claims p = {Probability(judged.p).text()})"
    return " (not so under each base model)"


def _difference(found: Comparison, colon: str = "") -> str:
    """`PCQC − GRPO +1.96 pp [−1.95, +5.95]`."""
    effect = found.effect
    difference = Number(effect.difference, signed=True).text()
    interval = Range(effect.low, effect.high).text()
    return f"{found.label}{colon} {difference} {found.unit} {interval}"


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
    means = (
        f"{runs.title(method)}: {_mean(runs, method, 'accuracy')}% right with "
        f"{_mean(runs, method, 'turns')} questions, over {len(names)} benchmarks and "
        f"{runs_of(runs, method)}."
    )
    said = [captioned(study, means)]
    pairs = {"accuracy": (method, rival), "turns": (rival, method)}  # turns: see `compared`
    for metric, pair in pairs.items() if rivals else ():
        found = compared(runs, *pair, names, metric)
        alone = " One run of each: the interval knows the cases alone." if found.single else ""
        said.append(f"{_difference(found, ':')}.{alone}")
    return said


def runs_of(runs: Collected, method: str) -> str:
    """`3 runs`."""
    count = len(runs.runs(method))
    return f"{count} run{'' if count == 1 else 's'}"


def _mean(runs: Collected, method: str, metric: str) -> str:
    return Number(runs.average(method, list(runs.benchmarks), metric).mean).text()
