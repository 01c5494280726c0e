"""`credit-lab helps STUDY`: the rule's quantities of a study before training, and what follows.

One update's consultations of PCQC are sampled from Shared SFT, with the study's own patient and
scorer, and scored; nothing is trained and nothing kept.
"""

import tempfile
from pathlib import Path
from typing import cast

import numpy as np

from credit_lab.map.quantities import QUANTITIES, Groups, quantities
from credit_lab.map.rule import OUTCOMES, Prediction, Rule, read_rule
from credit_lab.map.settings import load_map
from pcqc.errors import UserError
from pcqc.jobs.make_roles import checked_cases, make_context, make_scorer, role_weights
from pcqc.jobs.run_job import rollout_task
from pcqc.methods.base import Services
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc, QuestionBatch
from pcqc.recipes.graph import Jobs
from pcqc.settings import Study
from pcqc.system.determinism import single_threaded

LIKELY = 0.75
LIMITS = (
    "The rule comes from linear policies in small clinics (docs/map.md). In eight clinics with "
    "transformers it was too low against GRPO, by 7 points on average "
    "(src/credit_lab/map/cells.md). Equal cost counts responses, answers and readings alike."
)


def told(study: Study, name: str, cases: int) -> str:
    """What the command prints.

    Args:
        study: with PCQC and GRPO among its methods, its models and cases made.
        name: how it was named.
        cases: of the training set, from its beginning.

    Raises:
        UserError: the study lacks a method, a model or a case; a server fails.
    """
    rule, row = read_rule(), measure(study, name, cases)
    lines = [f"{name}: Shared SFT on at most {cases} training cases, before any training"]
    lines += [f"  {row[key]:8.3f}  {words}" for key, words in QUANTITIES.items()]
    lines.append("By the rule, in points of accuracy (80 % interval):")
    margin = load_map().rule.margin
    for outcome, predicted in rule.predict(row).items():
        low, high = predicted.interval
        lines.append(f"  {predicted.mean:+6.1f} [{low:+.1f}, {high:+.1f}]  {OUTCOMES[outcome]}")
        lines.append(f"          {verdict(predicted, margin)}")
    return "\n".join([*lines, *_outside(rule, row), LIMITS, ""])


def verdict(predicted: Prediction, margin: float) -> str:
    """A prediction in plain words."""
    more, less = predicted.above(margin), 1 - predicted.above(-margin)
    if more >= LIKELY:
        return f"likely ahead: by {margin:g} points or more with a chance of {more:.0%}"
    if less >= LIKELY:
        return f"likely behind: by {margin:g} points or more with a chance of {less:.0%}"
    if 1 - more - less >= LIKELY:
        return f"likely no difference of {margin:g} points: a chance of {1 - more - less:.0%}"
    return (
        f"the rule cannot tell: {more:.0%} for {margin:g} points ahead, {less:.0%} for as many "
        "behind"
    )


def measure(study: Study, name: str, cases: int) -> dict[str, float]:
    """The rule's quantities of a study; see `told`."""
    pcqc, grpo = cast(Pcqc, study.method("pcqc")), cast(Grpo, study.method("grpo"))
    if not pcqc.beta:
        raise UserError(f"{name}: methods.pcqc.beta is 0: questions get no credit; raise it")
    chosen = checked_cases(Jobs(study).cases("train").latest)[:cases]
    single_threaded(study.deterministic)
    with tempfile.TemporaryDirectory(prefix="pcqc-helps-") as folder:
        task = rollout_task(study, Path(folder))
        context = make_context(task, role_weights(task, "actor"))
        services = Services(None, seed=0, scorer=make_scorer(task))  # nothing is learned
        batch = pcqc.collect_rollouts(services, context, chosen, 0)
    return quantities(
        groups_of(batch),
        grpo_group=grpo.terminal_group,
        terminal_group=pcqc.terminal_group,
        question_group=pcqc.question_group,
        coverage=1.0,
        beta=pcqc.beta,
    )


def groups_of(batch: QuestionBatch) -> Groups:
    """What the rule needs of an update's batch."""
    last = dict.fromkeys((case.case_id for case in batch.cases), np.nan)
    for group in batch.groups:  # of a case in the order of its turns
        last[group.case.case_id] = float(group.utilities[0])
    turns = [c.inquiry_turns for row in batch.consultations for c in row]
    spreads = np.array([group.utility_std for group in batch.groups])
    rewards = np.stack(batch.rewards)
    return Groups(rewards, spreads, np.array(list(last.values())), float(np.mean(turns)))


def _outside(rule: Rule, row: dict[str, float]) -> list[str]:
    if not (far := rule.outside(row)):
        return []
    return [f"Unlike the clinics that the rule was fitted on: {', '.join(far)}. Trust it less."]
