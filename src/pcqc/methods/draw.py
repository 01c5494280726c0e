"""What one update draws: consultations, what they are credited with, and the figures of both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcqc.cases import Case
from pcqc.config import Method
from pcqc.consultation import Consultation, Setting, roll_out
from pcqc.credit.terminal import terminal_advantages
from pcqc.credit.tree import RunningVariance
from pcqc.errors import UserError
from pcqc.methods.assemble import assemble
from pcqc.methods.figures import (
    consultation_figures,
    group_figures,
    reward_figures,
    tree_figures,
)
from pcqc.methods.question_groups import (
    QuestionGroup,
    assign_credit,
    score_groups,
    supervised_states,
)
from pcqc.methods.sequences import TrainingSequence
from pcqc.methods.tree_batch import Trajectory, trajectories
from pcqc.methods.tree_search import Search, Values, search_trees, tree_reward
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
    def completed(self) -> int:
        """Number of complete consultations."""
        return sum(map(len, self.consultations))


@dataclass
class DrawnGroups(Drawn):
    """Groups of consultations, with candidate questions at the states of the first.

    Attributes:
        sequences: what the learner trains on.
        groups: scored and credited question groups.
    """

    sequences: list[TrainingSequence]
    groups: list[QuestionGroup]


@dataclass
class DrawnTrees(Drawn):
    """A searched tree per case.

    Attributes:
        searches: the trees.
        trajectories: the completed ones, what actor and critic train on.
    """

    searches: list[Search]
    trajectories: list[Trajectory]


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
        cases: of the update.
        seed: of the run.
        update: number of the update; part of every random stream's name.
    """
    every = roll_out(
        setting,
        cases,
        rollouts=method.terminal_group,
        candidates=max(1, method.question_group),
        seed=seed,
        stage=f"update/{update}",
    )
    kept = _answered(every)
    failures = {"failures/patient": len(cases) - len(kept)}
    cases, consultations = [cases[i] for i in kept], [every[i] for i in kept]
    rewards = [
        np.array([float(consultation.right(case)) for consultation in row])
        for case, row in zip(cases, consultations, strict=True)
    ]
    advantages = [terminal_advantages(row) for row in rewards]
    of_cases: list[list[QuestionGroup]] = [[] for _ in cases]
    if method.question_credit != "none":
        firsts = [row[0] for row in consultations]
        with setting.timed("scorer"):
            of_cases = score_groups(scorer, list(zip(cases, firsts, strict=True)))
        states = sum(len(supervised_states(first)) for first in firsts)
        failures["failures/scorer"] = states - sum(map(len, of_cases))
    groups = [group for of_case in of_cases for group in of_case]
    assign_credit(groups, method)
    figures = {
        **reward_figures(rewards),
        **consultation_figures(cases, consultations),
        "tokens/actor_all": _sampled_tokens(consultations),
        **failures,
        **group_figures(groups),
    }
    sequences = assemble(method, consultations, advantages, of_cases)
    return DrawnGroups(cases, consultations, rewards, advantages, figures, sequences, groups)


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
    rules = method.tree
    every = search_trees(setting, values, rules, cases, statistics, f"{seed}/update/{update}")
    rows = [[consultation for consultation, _ in search.trajectories] for search in every]
    kept = _answered(rows)
    failed = len(cases) - len(kept)
    cases, searches, rows = ([column[i] for i in kept] for column in (cases, every, rows))
    rewards = [
        np.array([tree_reward(case, consultation, rules) for consultation in row])
        for case, row in zip(cases, rows, strict=True)
    ]
    gains = [r - search.tree.nodes[0].value for search, r in zip(searches, rewards, strict=True)]
    sampled = sum(
        len(dialogue.consultation.turns[-1].executed.completion.tokens)
        for search in searches
        for dialogue in search.dialogues[1:]
    )
    figures = {
        **reward_figures(rewards),
        **consultation_figures(cases, rows),
        "tokens/actor_all": sampled,
        "failures/patient": failed,
        **tree_figures(searches),
    }
    found = [t for search in searches for t in trajectories(search, rules.divide_by_visits)]
    return DrawnTrees(cases, rows, rewards, gains, figures, searches, found)


def _sampled_tokens(consultations: Sequence[Sequence[Consultation]]) -> int:
    """Tokens of all the actor's responses, unexecuted candidates included."""
    return sum(
        len(response.completion.tokens)
        for row in consultations
        for consultation in row
        for turn in consultation.turns
        for response in turn.responses
    )


def _answered(consultations: Sequence[Sequence[Consultation]]) -> list[int]:
    """Which cases' consultations may be learned from: the patient failed in none of them.

    Groups and trees stay whole: a case is left out with all its consultations.

    Raises:
        UserError: there is no such case, or none of them came to its first turn.
    """
    kept = [
        i
        for i, row in enumerate(consultations)
        if not any(consultation.ending == "patient_failed" for consultation in row)
    ]
    if not kept:
        raise UserError("the patient's server failed in every case; see to it and run again")
    if not any(consultation.turns for i in kept for consultation in consultations[i]):
        raise UserError(
            "an update has nothing to learn from: every case is longer than "
            "protocol.prompt_tokens; raise that setting"
        )
    return kept
