"""The paper's five claims, each judged by a study: estimate, interval, verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.collected import Collected
from analysis.continuation import RULES, Continued, main_policy
from analysis.published import published
from analysis.statistics.crossed import Effect, Sample, crossed_effect, effect_over_cases
from analysis.statistics.verdicts import Judged, judge, probability_of_improvement
from analysis.table import listed


@dataclass(frozen=True)
class Comparison:
    """Minuend minus subtrahend in one metric, averaged over base models, runs and benchmarks.

    Attributes:
        effect: positive favours the claim.
        unit: `pp` or `turns`.
        improvement: chance that a run of the minuend is above one of the subtrahend.
        single: methods with one run each are compared, so that nothing is known of other runs.
        judged: verdict among all comparisons of the claims.
    """

    label: str
    effect: Effect
    unit: str
    improvement: float | None = None
    single: bool = False
    judged: Judged | None = None


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper reports for it, and what the study says.

    Attributes:
        missing: why the claim, or a part of it, is not tested.
    """

    key: str
    text: str
    published: str
    comparisons: tuple[Comparison, ...]
    missing: str = ""


def claims(collected: Collected) -> list[Claim]:
    """The five claims in the paper's order, as far as the study tests them, judged together."""
    return _judged(collected, [*_of_methods(collected), _utility_claim(collected)])


def claims_of_methods(collected: Collected) -> list[Claim]:
    """The four claims that compare trained methods, judged together."""
    return _judged(collected, _of_methods(collected))


def _judged(collected: Collected, found: list[Claim]) -> list[Claim]:
    every = [comparison for claim in found for comparison in claim.comparisons]
    equivalence = collected.study.equivalence
    margins = [equivalence.points if c.unit == "pp" else equivalence.turns for c in every]
    verdicts = iter(judge([c.effect for c in every], margins, [c.single for c in every]))
    return [
        replace(
            claim,
            comparisons=tuple(replace(c, judged=next(verdicts)) for c in claim.comparisons),
        )
        for claim in found
    ]


def _of_methods(collected: Collected) -> list[Claim]:
    everywhere = list(collected.benchmarks)
    return [
        _claim(
            collected,
            "accuracy",
            "PCQC diagnoses more accurately than GRPO and ATPO.",
            ("grpo", "atpo"),
            everywhere,
        ),
        _claim(
            collected,
            "turns",
            "PCQC asks fewer questions than GRPO.",
            ("grpo",),
            everywhere,
            metric="turns",
        ),
        _claim(
            collected,
            "counterfactual",
            "Comparing candidates gains beyond feedback on the executed question.",
            ("executed_local",),
            collected.primary,
        ),
        _claim(
            collected,
            "unexecuted",
            "Supervising unexecuted questions gains beyond the executed ones.",
            ("same_state_q1",),
            everywhere,
        ),
    ]


def _utility_claim(collected: Collected) -> Claim:
    gains = _utility_gains(collected)
    return Claim(
        "utility",
        "A question's diagnostic utility predicts downstream success.",
        published().claims["utility"],
        gains,
        "" if gains else "This study has too few continuations.",
    )


def _utility_gains(collected: Collected) -> tuple[Comparison, ...]:
    """Highest-utility selection against the paper's two rivals, on each base model."""
    if not collected.study.continuation:
        return ()
    every = [main_policy(one).as_answered() for one in collected.on_each_base]
    if min(len(found.case_ids) for found in every) < 2:
        return ()
    return tuple(
        Comparison(
            f"Highest-utility − {RULES[rival][0].lower()}{RULES[rival][1:]}",
            effect_over_cases([_gains(found, rival) for found in every]),
            "pp",
        )
        for rival in ("uniform", "executed")
    )


def _gains(found: Continued, rival: str) -> dict[str, float]:
    """Case -> what the highest utility gains over a rival at its state, in points."""
    chosen = found.selected()
    gains = chosen["highest_utility"] - chosen[rival]
    return dict(zip(found.case_ids, gains.tolist(), strict=True))


def _claim(
    collected: Collected,
    key: str,
    text: str,
    rivals: tuple[str, ...],
    benchmarks: list[str],
    metric: str = "accuracy",
) -> Claim:
    """A claim that PCQC is above its rivals in accuracy, or below them in turns."""
    absent = [method for method in ("pcqc", *rivals) if method not in collected.methods()]
    present = [] if "pcqc" in absent else [rival for rival in rivals if rival not in absent]
    found = tuple(compared(collected, "pcqc", rival, benchmarks, metric) for rival in present)
    titles = listed([published().methods[method] for method in absent])
    return Claim(key, text, published().claims[key], found, f"Not run: {titles}." if absent else "")


def compared(
    collected: Collected,
    method: str,
    rival: str,
    benchmarks: list[str],
    metric: str,
    alike: Sequence[Sample] = (),
) -> Comparison:
    """The improvement of a method over a rival: more accuracy in points, or fewer turns.

    Their runs are taken to vary as those of `alike` do, if there are any (`crossed_effect`).
    """
    pair = (method, rival) if metric == "accuracy" else (rival, method)
    first, second = (collected.sample(name, benchmarks, metric) for name in pair)
    unit = "pp" if metric == "accuracy" else "turns"
    label = " − ".join(collected.title(name) for name in pair)
    improvement = probability_of_improvement(first.tasks(second))
    effect = crossed_effect(first, second, alike)
    return Comparison(label, effect, unit, improvement, single=effect.random == "case")
