"""PCQC in rLLM: `step.advantage`, computed before the trainer, for each token of a response.

A workflow that plays a case's consultations returns them in one Episode, as trajectories named
`doctor` with their rewards; each candidate question that was not asked is a trajectory of one step
named `candidate`. A step with a question says of it

    step.metadata = {"state": (0, 2), "question_start": 12, "utility": 0.4}

where steps of one state are compared, the asked question first, and `question_start` counts the
tokens of `response_ids` (None where nothing is asked). Call `credit([episode])` last in the
workflow, and set `rllm.algorithm.use_precomputed_advantage: true`.

Read in rllm-org/rllm 9beb6e0: `rllm/types.py`, `rllm/trainer/algorithms/advantage.py`,
docs/training/precompute-advantage.mdx. This file imports nothing of rLLM. `make example-rllm` runs
it on rLLM's own steps, which its trainer then takes; where rLLM is not there, the test has steps
with the recorded names and shapes.
"""

from collections.abc import Sequence
from typing import Any

from turn_credit import Group, Span, Term, terminal_advantages, token_advantages
from turn_credit import pcqc as question_credits


def credit(episodes: Sequence, question_weight: float = 1.0) -> None:
    """Set the advantage of every step of the episodes, a list as long as its response.

    Each term is a mean over its own tokens of these episodes. Outcomes are compared within one.

    Args:
        episodes: those of one workflow's run, or of an update.
        question_weight: beta.
    """
    steps: list[Any] = []
    terminal: list[tuple[Span, float]] = []
    states: dict[tuple, list[tuple[int, dict]]] = {}
    for number, episode in enumerate(episodes):
        doctors = [t for t in episode.trajectories if t.name == "doctor"]
        outcomes = iter(terminal_advantages([t.reward for t in doctors]))
        for trajectory in episode.trajectories:
            outcome = next(outcomes) if trajectory.name == "doctor" else None
            for step in trajectory.steps:
                row, told = len(steps), step.metadata or {}
                steps.append(step)
                if outcome is not None:
                    terminal.append(((row, 0, len(step.response_ids)), outcome))
                if "utility" in told:
                    states.setdefault((number, told["state"]), []).append((row, told))
    terms = [Term([span for span, _ in terminal], [outcome for _, outcome in terminal])]
    of_states = question_credits(
        Group(utilities=[[q["utility"] for _, q in s] for s in states.values()])
    )
    spans, credits = [], []
    for state, of_state in zip(states.values(), of_states, strict=True):
        for (row, told), value in zip(state, of_state, strict=True):
            if told["question_start"] is not None:
                spans.append((row, told["question_start"], len(steps[row].response_ids)))
                credits.append(value)
    if spans:
        terms.append(Term(spans, credits, question_weight))
    shape = (len(steps), max(len(step.response_ids) for step in steps))
    trained = sum(len(step.response_ids) for step in steps)
    for step, advantages in zip(steps, token_advantages(shape, terms, trained), strict=True):
        step.advantage = advantages[: len(step.response_ids)].tolist()
