"""What one update draws: consultations, what they are credited with, and the figures of both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases import Case
from pcqc.config import Method
from pcqc.consultation import Consultation, Setting, roll_out
from pcqc.credit.tree import RunningVariance, back_up, visits
from pcqc.errors import UserError
from pcqc.methods.assemble import UpdateBatch, assemble
from pcqc.methods.question_groups import QuestionGroup, score_groups, supervised_states
from pcqc.methods.tree_batch import Trajectory, trajectories
from pcqc.methods.tree_search import Search, Values, reward, search
from pcqc.roles import Scorer


@dataclass
class Drawn:
    """One update's material, whatever the method.

    Attributes:
        cases: of the update, less those in which a served patient failed.
        consultations: complete ones of each case.
        rewards: per case, float [its consultations].
        advantages: per case, float [its consultations]: of the whole consultation.
        figures: metric name -> value, for the record.
    """

    cases: list[Case]
    consultations: list[list[Consultation]]
    rewards: list[np.ndarray]
    advantages: list[np.ndarray]
    figures: dict[str, float]

    @property
    def trajectories(self) -> int:
        """Number of complete consultations."""
        return sum(map(len, self.consultations))


@dataclass
class DrawnGroups(Drawn):
    """Groups of consultations, with candidate questions at the states of the first.

    Attributes:
        batch: what the learner trains on.
        groups: scored question groups.
    """

    batch: UpdateBatch
    groups: list[QuestionGroup]


@dataclass
class DrawnTrees(Drawn):
    """A searched tree per case.

    Attributes:
        searches: the trees.
        batch: their completed trajectories, what actor and critic train on.
    """

    searches: list[Search]
    batch: list[Trajectory]


def draw_groups(
    setting: Setting,
    scorer: Scorer | None,
    method: Method,
    cases: Sequence[Case],
    *,
    seed: int,
    update: int,
) -> DrawnGroups:
    """Draw an update's consultations and credit them.

    Args:
        setting: roles and rules.
        scorer: needed where the method has question credit.
        method: settings.
        cases: of the update, less those in which a served patient failed.
        seed: of the run.
        update: number of the update; part of every random stream's name.
    """
    consultations = roll_out(
        setting,
        cases,
        rollouts=method.terminal_group,
        candidates=max(1, method.question_group),
        seed=seed,
        stage=f"update/{update}",
    )
    kept = _answered(consultations)
    failures = {"failures/patient": len(cases) - len(kept)}
    cases, consultations = [cases[i] for i in kept], [consultations[i] for i in kept]
    groups: list[QuestionGroup] = []
    if method.question_credit != "none":
        with setting.timed("scorer"):
            firsts = [(case, row[0]) for case, row in zip(cases, consultations, strict=True)]
            groups = score_groups(scorer, firsts)
            states = sum(len(supervised_states(first)) for _, first in firsts)
            failures["failures/scorer"] = states - len(groups)
    batch = assemble(method, cases, consultations, groups)
    sampled = sum(
        len(response.completion.tokens)
        for row in consultations
        for consultation in row
        for turn in consultation.turns
        for response in turn.responses
    )
    figures = {
        **_reward_figures(batch.rewards),
        **_consultation_figures(cases, consultations),
        "tokens/actor_all": sampled,
        **failures,
        **_group_figures(groups),
    }
    return DrawnGroups(
        list(cases),
        consultations,
        list(batch.rewards),
        list(batch.advantages),
        figures,
        batch,
        groups,
    )


def draw_trees(
    setting: Setting,
    values: Values,
    method: Method,
    cases: Sequence[Case],
    statistics: RunningVariance,
    *,
    seed: int,
    update: int,
) -> DrawnTrees:
    """Search the tree of every case of an update; see `draw_groups`.

    Args:
        values: the critic.
        statistics: of the variances in the run so far.
    """
    tree = method.tree
    every = search(setting, values, tree, cases, statistics, f"{seed}/update/{update}")
    rows = [[consultation for consultation, _ in one.trajectories] for one in every]
    kept = _answered(rows)
    failed = len(cases) - len(kept)
    cases, searches, rows = ([column[i] for i in kept] for column in (cases, every, rows))
    rewards = [
        np.array([reward(case, consultation, tree) for consultation in row])
        for case, row in zip(cases, rows, strict=True)
    ]
    gains = [r - one.tree.nodes[0].value for one, r in zip(searches, rewards, strict=True)]
    batch = [t for one in searches for t in trajectories(one, tree.divide_by_visits)]
    sampled = sum(
        len(dialogue.consultation.turns[-1].executed.completion.tokens)
        for one in searches
        for dialogue in one.dialogues[1:]
    )
    figures = {
        **_reward_figures(rewards),
        **_consultation_figures(cases, rows),
        "tokens/actor_all": sampled,
        "failures/patient": failed,
        **_tree_figures(searches),
    }
    return DrawnTrees(list(cases), rows, rewards, gains, figures, searches, batch)


def _answered(consultations: Sequence[Sequence[Consultation]]) -> list[int]:
    """Which cases' consultations may be learned from: the patient failed in none of them.

    Groups and trees stay whole: a case is left out with all its consultations.

    Raises:
        UserError: there is no such case.
    """
    kept = [
        i
        for i, row in enumerate(consultations)
        if not any(consultation.ending == "patient_failed" for consultation in row)
    ]
    if not kept:
        raise UserError("the patient's server failed in every case; see to it and run again")
    return kept


def _reward_figures(rewards: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean reward, and the share of cases whose consultations were all alike."""
    return {
        "reward/mean": float(np.concatenate(list(rewards)).mean()),
        "reward/equal_group_share": float(np.mean([np.all(r == r[0]) for r in rewards])),
    }


def _consultation_figures(
    cases: Sequence[Case], consultations: Sequence[Sequence[Consultation]]
) -> dict[str, float]:
    every = [c for row in consultations for c in row]
    right = [
        c.predicted == case.answer
        for case, row in zip(cases, consultations, strict=True)
        for c in row
    ]
    return {
        "accuracy": float(np.mean(right)),
        "turns": float(np.mean([c.inquiry_turns for c in every])),
        "tokens/actor": sum(c.actor_tokens for c in every) / len(every),
        "ending/answer_share": float(np.mean([c.ending == "answer" for c in every])),
        "ending/turn_limit_share": float(np.mean([c.ending == "turn_limit" for c in every])),
    }


def _group_figures(groups: Sequence[QuestionGroup]) -> dict[str, float]:
    if not groups:
        return {}
    unparsed = [r.answer is None for g in groups for r in g.turn.responses]
    return {
        "credit/groups": len(groups),
        "credit/zero_group_share": float(np.mean([not g.credits.any() for g in groups])),
        "credit/utility_spread": float(np.mean([g.spread for g in groups])),
        "credit/utility_mean": float(np.mean([g.utilities.mean() for g in groups])),
        "credit/gain_executed": float(np.mean([g.gains[0] for g in groups])),
        "credit/gain_best": float(np.mean([g.gains.max() for g in groups])),
        "credit/unparsed_share": float(np.mean(unparsed)),
    }


def _tree_figures(searches: Sequence[Search]) -> dict[str, float]:
    nodes = [node for one in searches for node in one.tree.nodes]
    passed = np.concatenate([visits(one.tree) > 0 for one in searches])
    targets = np.concatenate([back_up(one.tree) for one in searches])
    values = np.array([node.value for node in nodes])
    states = passed & ~np.array([node.terminal for node in nodes])
    decided = [node.uncertainty for node in nodes if node.uncertainty is not None]
    return {
        "tree/nodes": len(nodes) / len(searches),
        "tree/trajectories": sum(node.terminal for node in nodes) / len(searches),
        "tree/pruned_share": float(np.mean([node.pruned for node in nodes])),
        "tree/uncertainty": float(np.mean(decided)) if decided else 0.0,
        "tree/root_value": float(np.mean([one.tree.nodes[0].value for one in searches])),
        "critic/correlation": _correlation(values[states], targets[states]),
    }


def _correlation(values: np.ndarray, targets: np.ndarray) -> float:
    """Pearson's between values and backed-up values; 0 where either is constant."""
    if len(values) < 2 or min(values.std(), targets.std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(values, targets)[0, 1])
