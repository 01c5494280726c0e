"""The audit's table: expected gradients of the methods beside the exact one, part by part."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from credit_lab.audit.gradients import method_gradient, question_gradient, terminal_gradient
from credit_lab.audit.tabular import TabularPolicy, TinyClinic, exact_gradient, questions
from credit_lab.audit.turn_credits import reference_credits
from credit_lab.parts import Parts
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.study import Method
from pcqc.system.files import csv_text, write_atomic

NOTHING = 1e-10  # a gradient that is shorter has no direction
STEPS, RATE = 150, 2.0  # of the trained policies: well on their way, and not at their best yet
ALONE = "question loss alone"
REFERENCE = "REINFORCE, leave-one-out"
HEADING = (
    "Cosine with the exact gradient of the probability of a correct answer, and the ratio of the "
    "norms to its norm: mean over policies, and range. Asking: how much more than the exact "
    "gradient the choice part pushes towards asking (cosine with the gradient of the number of "
    "questions, less the exact gradient's)."
)


def policies(clinic: TinyClinic) -> dict[str, TabularPolicy]:
    """Name -> a policy at which gradients are compared; random ones have fixed seeds."""
    first, second = (random_policy(clinic, seed) for seed in (1, 2))
    return {
        "uniform": TabularPolicy(clinic, clinic.zeros()),
        "random 1": first,
        "random 2": second,
        "diagnoses well": diagnostician(clinic),
        "random 1, trained": trained(first),
        "diagnoses well, trained": trained(diagnostician(clinic)),
    }


def random_policy(clinic: TinyClinic, seed: int) -> TabularPolicy:
    """Standard normal logits."""
    rng = np.random.default_rng(seed)
    parts = (rng.standard_normal(part.shape) for part in clinic.zeros())
    return TabularPolicy(clinic, Parts(*parts))


def diagnostician(clinic: TinyClinic) -> TabularPolicy:
    """Answers with Bayes' posterior; asks, stops and chooses its questions at random."""
    logits = clinic.zeros()
    logits.answer = np.log([clinic.posterior(state) for state in clinic.states])
    return TabularPolicy(clinic, logits)


def trained(policy: TabularPolicy) -> TabularPolicy:
    """After `STEPS` steps along the exact gradient."""
    for _ in range(STEPS):
        policy = TabularPolicy(policy.clinic, policy.logits.plus(RATE, exact_gradient(policy)))
    return policy


def audit(methods: Mapping[str, Method], at: Mapping[str, TabularPolicy]) -> pd.DataFrame:
    """Compare every method at every policy.

    Args:
        methods: name -> settings; those without a gradient of their own, a tree or a learned critic
            are left out.
        at: name -> policy.

    Returns:
        A row for each policy and method, and one for its question term alone, `ALONE`: `cosine_` of
        each part with the exact gradient's part, `ratio_` of their norms; `asking`, cosine of the
        choice part with the gradient of the expected number of questions, less that of the exact
        gradient; `norm_choice`, the largest absolute entry of the choice part. NaN where either
        gradient is nothing.
    """
    rows = []
    for name, policy in at.items():
        gradients = {REFERENCE: terminal_gradient(policy, reference_credits(policy, 4))}
        for method in methods.values():
            if not isinstance(method, Grpo):
                continue
            gradients[method.title] = method_gradient(policy, method)
            if isinstance(method, Pcqc):
                gradients[f"{method.title}, {ALONE}"] = question_gradient(policy, method)
        exact = exact_gradient(policy)
        more_questions = exact_gradient(policy, questions).choice
        for title, gradient in gradients.items():
            pairs = dict(zip(Parts.NAMES, zip(gradient, exact, strict=True), strict=True))
            rows.append(
                {
                    "policy": name,
                    "method": title,
                    **{f"cosine_{part}": cosine(*pair) for part, pair in pairs.items()},
                    **{f"ratio_{part}": _ratio(*pair) for part, pair in pairs.items()},
                    "asking": cosine(gradient.choice, more_questions)
                    - cosine(exact.choice, more_questions),
                    "norm_choice": float(np.abs(gradient.choice).max()),
                }
            )
    return pd.DataFrame(rows)


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Of two parts of gradients; NaN where either is nothing."""
    norms = np.linalg.norm(first), np.linalg.norm(second)
    return float((first * second).sum() / np.prod(norms)) if min(norms) > NOTHING else np.nan


def _ratio(own: np.ndarray, exact: np.ndarray) -> float:
    norm = np.linalg.norm(exact)
    return float(np.linalg.norm(own) / norm) if norm > NOTHING else np.nan


def write_audit(
    methods: Mapping[str, Method], at: Mapping[str, TabularPolicy], folder: Path
) -> str:
    """Write `table.csv`, a row per policy and method, and `table.md`; returns the latter's text."""
    rows = audit(methods, at)
    numbers = list(rows.columns[2:-1])
    overall = rows.groupby("method", sort=False)[numbers].agg(_mean_and_range)
    alone = rows.loc[rows["method"].str.endswith(ALONE), "norm_choice"].max()
    parts = [
        f"{HEADING}\n\n{_markdown(overall)}",
        f"Largest entry of the choice part of any {ALONE}: {alone:.1e}.\n",
    ]
    for name in [*(f"cosine_{part}" for part in Parts.NAMES), "asking"]:
        by_policy = rows.pivot(index="method", columns="policy", values=name)
        by_policy = by_policy.loc[overall.index, list(at)].map(_number)
        parts.append(_markdown(by_policy.rename_axis(name)))
    text = "\n".join(parts)
    values = rows.astype(object).where(rows.notna(), "").to_numpy().tolist()
    write_atomic(folder / "table.csv", csv_text(list(rows.columns), values))
    write_atomic(folder / "table.md", text)
    return text


def _markdown(frame: pd.DataFrame) -> str:
    titles = [name.replace("_", ", ") for name in (frame.index.name, *frame.columns)]
    head, *rows = (
        f"| {' | '.join(cells)} |" for cells in (titles, *frame.reset_index().to_numpy().tolist())
    )
    return "\n".join([head, "|---|" + "---|" * len(frame.columns), *rows]) + "\n"


def _mean_and_range(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return _number(np.nan)
    low, high = known.min(), known.max()
    return f"{_number(float(np.mean(known.tolist())))} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    """Two digits; a zero has no sign."""
    return "—" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}"
