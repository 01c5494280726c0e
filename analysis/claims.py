"""The paper's five claims, each judged by a study: estimate, interval, verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from analysis.collected import Collected
from analysis.continuation import RULES, main_policy
from analysis.published import published
from analysis.statistics.intervals import (
    Effect,
    Sample,
    crossed_effect,
    effect_over_cases,
)
from analysis.statistics.verdicts import Judged, judge, probability_of_improvement
from analysis.table import listed


@dataclass(frozen=True)
class Comparison:
    """Minuend minus subtrahend in one metric, averaged over base models, runs and benchmarks.

    Attributes:
        effect: positive favours the claim.
        unit: `pp` or `turns`.
        n: how much is compared: `8 + 12 runs, 1,600 cases`, or `256 states`.
        improvement: chance that a run of the minuend is above one of the subtrahend.
        single: methods with one run each are compared, so that nothing is known of other runs.
        rival: the method that PCQC is compared with; empty where questions of one run are.
        judged: verdict among all comparisons of the claims.
    """

    label: str
    effect: Effect
    unit: str
    n: str
    improvement: float | None = None
    single: bool = False
    rival: str = ""
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


@lru_cache
def claims(collected: Collected) -> list[Claim]:
    """The five claims in the paper's order, as far as the study tests them, judged together."""
    return _judged(collected, [*_of_methods(collected, {}), _of_utility(collected)])


def claims_of_methods(
    collected: Collected, pairs: Mapping[str, Collected] | None = None
) -> list[Claim]:
    """The four claims that compare trained methods, judged together.

    Args:
        collected: the study.
        pairs: rival -> the runs of PCQC and of the rival to compare; by default those collected.
    """
    return _judged(collected, _of_methods(collected, pairs or {}))


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
    cases = sum(outcomes.shape[1] for outcomes in first.benchmarks)
    n = f"{len(first.runs)} + {len(second.runs)} runs, {cases:,} cases"
    single = effect.random == "case"
    return Comparison(label, effect, unit, n, improvement, single, rival)


def _judged(collected: Collected, unjudged: list[Claim]) -> list[Claim]:
    comparisons = [comparison for claim in unjudged for comparison in claim.comparisons]
    margin = collected.study.equivalence
    margins = [margin.points if c.unit == "pp" else margin.turns for c in comparisons]
    verdicts = iter(
        judge([c.effect for c in comparisons], margins, [c.single for c in comparisons])
    )
    return [
        replace(
            claim,
            comparisons=tuple(replace(c, judged=next(verdicts)) for c in claim.comparisons),
        )
        for claim in unjudged
    ]


def _of_methods(collected: Collected, pairs: Mapping[str, Collected]) -> list[Claim]:
    """PCQC is above its rivals in accuracy, or below them in turns."""
    everywhere = list(collected.benchmarks)
    claimed = []
    for key, text, rivals, benchmarks, metric in (
        (
            "accuracy",
            "PCQC diagnoses more accurately than GRPO and ATPO.",
            ("grpo", "atpo"),
            everywhere,
            "accuracy",
        ),
        ("turns", "PCQC asks fewer questions than GRPO.", ("grpo",), everywhere, "turns"),
        (
            "counterfactual",
            "Comparing candidates gains beyond feedback on the executed question.",
            ("executed_local",),
            collected.primary,
            "accuracy",
        ),
        (
            "unexecuted",
            "Supervising unexecuted questions gains beyond the executed ones.",
            ("same_state_q1",),
            everywhere,
            "accuracy",
        ),
    ):
        absent = [method for method in ("pcqc", *rivals) if method not in collected.methods()]
        present = [] if "pcqc" in absent else [rival for rival in rivals if rival not in absent]
        comparisons = (
            compared(pairs.get(r, collected), "pcqc", r, benchmarks, metric) for r in present
        )
        titles = listed([published().methods[method] for method in absent])
        missing = f"Not run: {titles}." if absent else ""
        claimed.append(Claim(key, text, published().claims[key], tuple(comparisons), missing))
    return claimed


def _of_utility(collected: Collected) -> Claim:
    """Highest-utility selection against the paper's two rivals, on each base model."""
    text = "A question's diagnostic utility predicts downstream success."
    policies = []
    if collected.study.continuation:
        policies = [main_policy(each) for each in collected.on_each_base]
    if not policies or min(len(policy.case_ids) for policy in policies) < 2:
        few = "This study has too few continuations."
        return Claim("utility", text, published().claims["utility"], (), few)
    n = f"{' + '.join(f'{len(policy.case_ids):,}' for policy in policies)} states"
    comparisons = []
    for rival in ("uniform", "executed"):
        gains = []  # case -> points that the highest utility gains at its state
        for policy in policies:
            success = policy.selected()
            points = success["highest_utility"] - success[rival]
            gains.append(dict(zip(policy.case_ids, points.tolist(), strict=True)))
        label = f"Highest-utility − {RULES[rival][0].lower()}{RULES[rival][1:]}"
        comparisons.append(Comparison(label, effect_over_cases(gains, reach=100), "pp", n))
    return Claim("utility", text, published().claims["utility"], tuple(comparisons))
