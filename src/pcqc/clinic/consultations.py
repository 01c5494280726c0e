"""Writes recorded consultations: what the doctor and the patient say in the SFT data."""

import numpy as np

from pcqc import protocol
from pcqc.cases import Case
from pcqc.clinic.posterior import posterior
from pcqc.clinic.world import Patient, World, ask, read_findings, state_finding
from pcqc.protocol import Exchange


def true_answer(world: World, patient: Patient, finding: int, wording: str = "plain") -> str:
    """The correct answer to the question about a finding."""
    return state_finding(world.findings[finding], patient.present[finding], wording)


def thought(world: World, case: Case, exchanges: list[Exchange]) -> str:
    """The doctor's thinking: the most likely diagnosis on the evidence so far."""
    found: dict[int, bool] = {}
    for exchange in exchanges:
        found.update(read_findings(world, exchange.answer))
    leading = int(np.argmax(posterior(world, case, found)))
    return list(case.options.values())[leading]


def spoken_turns(world: World, case: Case, exchanges: list[Exchange]) -> list[tuple[str, str]]:
    """(thinking, action) of each of the doctor's turns: the questions, then the correct answer."""
    actions = [f"{protocol.QUESTION_MARKER} {exchange.question}" for exchange in exchanges]
    actions.append(f"{protocol.ANSWER_MARKER} {case.answer}")
    return [
        (
            f"{protocol.THINK_OPEN}{thought(world, case, exchanges[:turn])}{protocol.THINK_CLOSE}",
            action,
        )
        for turn, action in enumerate(actions)
    ]


def recorded_conversation(
    world: World,
    case: Case,
    patient: Patient,
    instruction: str,
    questions: int,
    rng: np.random.Generator,
) -> list[dict[str, str]]:
    """Messages of a conversation with `questions` random questions, then the correct answer."""
    others = [f for f in range(len(world.findings)) if f != patient.complaint]
    asked = rng.permutation(others)[:questions]
    exchanges = [
        Exchange(ask(world.findings[f]), true_answer(world, patient, int(f))) for f in asked
    ]
    messages = [
        {"role": "system", "content": instruction},
        {"role": "user", "content": protocol.actor_prompt(case.public)},
    ]
    for turn, (thinking, action) in enumerate(spoken_turns(world, case, exchanges)):
        messages.append({"role": "assistant", "content": thinking + action})
        if turn < len(exchanges):
            messages.append({"role": "user", "content": exchanges[turn].answer})
    return messages
