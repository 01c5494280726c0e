"""Rows of a run's records: metrics, dialogues, candidate groups, search trees."""

import dataclasses

from pcqc.evaluation.benchmark import dialogue_row
from pcqc.methods.atpo.search import Search
from pcqc.methods.atpo.tree import advantages, back_up, visits
from pcqc.methods.question_groups import QuestionGroup
from pcqc.methods.rollouts import RolloutBatch
from pcqc.study import Method
from pcqc.system.machine import now
from pcqc.training.policy import UpdateReport


def event_row(
    update: int,
    metrics: dict[str, float],
    report: UpdateReport,
    totals: dict[str, float],
    seconds: dict[str, float],
) -> dict:
    """The metrics of an update."""
    return {
        "kind": "update",
        "update": update,
        "time": now(),
        **metrics,
        **{f"loss/{name}": value for name, value in report.losses.items()},
        "kl": report.losses.get("kl", 0.0),
        **report.statistics,
        **{f"seconds/{name}": value for name, value in seconds.items()},
        **{name: totals[name] for name in ("trajectories", "sampled_tokens", "scored_tokens")},
        "device_hours": totals["device_seconds"] / 3600,
    }


def tree_row(update: int, search: Search, method: Method) -> dict:
    """A searched tree as plain data: the question at each node, and all its numbers."""
    values, counts = back_up(search.tree), visits(search.tree)
    scores = advantages(search.tree, method.tree.divide_by_visits)
    nodes = []
    for i, (node, dialogue) in enumerate(zip(search.tree.nodes, search.dialogues, strict=True)):
        said = dialogue.consultation.turns[-1].executed if node.parent is not None else None
        nodes.append(
            {
                **{k: v for k, v in dataclasses.asdict(node).items() if k != "children"},
                "backed_up": float(values[i]),
                "visits": int(counts[i]),
                "advantage": float(scores[i]),
                "response": said and said.text,
                "question": said and said.action.question,
                "answer": said and said.answer,
                "predicted": dialogue.consultation.predicted,
                "ending": dialogue.consultation.ending,
            }
        )
    case = search.case
    return {
        "update": update,
        "case_id": case.case_id,
        "initial": case.initial,
        "question": case.question,
        "options": case.options,
        "answer_label": case.answer,
        "nodes": nodes,
    }


def group_row(update: int, group: QuestionGroup, method: Method) -> dict:
    """A candidate group as plain data: questions, answers, and the credit of each."""
    supervised = 1 if method.supervise == "executed" else len(group.turn.responses)
    return {
        "update": update,
        "case_id": group.case.case_id,
        "turn": group.number,
        "baseline": group.baseline,
        "spread": group.utility_std,
        "initial": group.case.initial,
        "options": group.case.options,
        "answer_label": group.case.answer,
        "history": [dataclasses.asdict(e) for e in group.turn.exchanges],
        "candidates": [
            {
                "response": response.text,
                "question": response.action.question,
                "answer": response.answer,
                "utility": float(group.utilities[k]),
                "gain": float(group.gains[k]),
                "credit": float(group.credits[k]),
                "executed": k == 0,
                "supervised": k < supervised and response.question_start is not None,
            }
            for k, response in enumerate(group.turn.responses)
        ],
    }


def consultation_rows(update: int, batch: RolloutBatch, count: int) -> list[dict]:
    """The first consultations of the first cases of an update, to read."""
    rows = []
    for i, (case, row) in enumerate(zip(batch.cases[:count], batch.consultations, strict=False)):
        extra = {
            "update": update,
            "rollout": 0,
            "reward": float(batch.rewards[i][0]),
            "advantage": float(batch.advantages[i][0]),
        }
        rows.append({**extra, **dialogue_row(case, row[0])})
    return rows
