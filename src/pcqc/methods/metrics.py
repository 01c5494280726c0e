"""What an update's rollouts were like, in numbers; `docs/read-a-run.md` explains each."""

from collections.abc import Sequence

import numpy as np

from pcqc.cases.case import Case
from pcqc.consultation import Consultation
from pcqc.methods.atpo.atpo import TreeBatch
from pcqc.methods.atpo.search import Search
from pcqc.methods.atpo.tree import back_up, visits
from pcqc.methods.pcqc import QuestionBatch
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.rollouts import RolloutBatch
from pcqc.methods.turn_credit import TurnBatch


def rollout_metrics(batch: RolloutBatch) -> dict[str, float]:
    """Metric name -> value of an update's rollouts, whatever the method."""
    return {
        **reward_metrics(batch.rewards),
        **consultation_metrics(batch.cases, batch.consultations),
        "tokens/actor_all": batch.sampled_tokens,
        **batch.failures,
        **group_metrics(batch.groups if isinstance(batch, QuestionBatch) else []),
        **turn_credit_metrics(batch),
        **tree_metrics(batch.searches if isinstance(batch, TreeBatch) else []),
    }


def reward_metrics(rewards: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean reward, and the share of cases whose consultations all had the same."""
    return {
        "reward/mean": float(np.concatenate(list(rewards)).mean()),
        "reward/equal_group_share": float(np.mean([np.all(r == r[0]) for r in rewards])),
    }


def consultation_metrics(
    cases: Sequence[Case], consultations: Sequence[Sequence[Consultation]]
) -> dict[str, float]:
    """How the consultations ended, and how long they were."""
    every = [c for row in consultations for c in row]
    pairs = zip(cases, consultations, strict=True)
    correct = [one.is_correct(case) for case, row in pairs for one in row]
    return {
        "accuracy": float(np.mean(correct)),
        "turns": float(np.mean([c.inquiry_turns for c in every])),
        "tokens/actor": sum(c.actor_tokens for c in every) / len(every),
        "ending/answer_share": float(np.mean([c.ending == "answer" for c in every])),
        "ending/turn_limit_share": float(np.mean([c.ending == "turn_limit" for c in every])),
    }


def group_metrics(groups: Sequence[QuestionGroup]) -> dict[str, float]:
    """How far the candidates differed in utility, and what the credit made of it."""
    if not groups:
        return {}
    unparsed = [r.answer is None for g in groups for r in g.turn.responses]
    return {
        "credit/groups": len(groups),
        "credit/zero_group_share": float(np.mean([not g.credits.any() for g in groups])),
        "credit/utility_spread": float(np.mean([g.utility_std for g in groups])),
        "credit/utility_mean": float(np.mean([g.utilities.mean() for g in groups])),
        "credit/gain_executed": float(np.mean([g.gains[0] for g in groups])),
        "credit/gain_best": float(np.mean([g.gains.max() for g in groups])),
        "credit/unparsed_share": float(np.mean(unparsed)),
        **_distinct_questions(groups),
    }


def _distinct_questions(groups: Sequence[QuestionGroup]) -> dict[str, float]:
    """Turn, from 1 -> mean number of different questions among the candidates of a state."""
    by_turn: dict[int, list[int]] = {}
    for group in groups:
        questions = {r.action.question for r in group.turn.responses if r.action.question}
        by_turn.setdefault(group.number + 1, []).append(len(questions))
    return {
        f"credit/distinct_questions_turn_{turn}": float(np.mean(counts))
        for turn, counts in sorted(by_turn.items())
    }


def turn_credit_metrics(batch: RolloutBatch) -> dict[str, float]:
    """How far turn credits spread, and the share of turns that no other shares its state with."""
    if not isinstance(batch, TurnBatch):
        return {}
    credits = np.concatenate([credit for row in batch.credits for credit in row])
    return {"credit/turn_spread": float(credits.std()), "credit/alone_share": batch.alone}


def tree_metrics(searches: Sequence[Search]) -> dict[str, float]:
    """Size of the trees, what was pruned, and how the critic's values fit the backed-up ones."""
    if not searches:
        return {}
    nodes = [node for search in searches for node in search.tree.nodes]
    passed = np.concatenate([visits(search.tree) > 0 for search in searches])
    targets = np.concatenate([back_up(search.tree) for search in searches])
    values = np.array([node.value for node in nodes])
    states = passed & ~np.array([node.terminal for node in nodes])
    decided = [node.uncertainty for node in nodes if node.uncertainty is not None]
    return {
        "tree/nodes": len(nodes) / len(searches),
        "tree/trajectories": sum(search.tree.completed for search in searches) / len(searches),
        "tree/pruned_share": float(np.mean([node.pruned for node in nodes])),
        "tree/uncertainty": float(np.mean(decided)) if decided else 0.0,
        "tree/root_value": float(np.mean([search.tree.nodes[0].value for search in searches])),
        "critic/correlation": _correlation(values[states], targets[states]),
    }


def _correlation(values: np.ndarray, targets: np.ndarray) -> float:
    """Pearson's between values and backed-up values; 0 where either is constant."""
    if len(values) < 2 or min(values.std(), targets.std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(values, targets)[0, 1])
