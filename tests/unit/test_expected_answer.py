"""The practical form of the expected answer: imagined patients, scripted, and numbers by hand."""

import numpy as np
import pytest
from helpers import make_case, scripted_context, scripted_scorer

from clinic_env.world import ask, draw_world, state_complaint
from pcqc.cases.prompts import Exchange
from pcqc.consultation import Turn
from pcqc.methods.base import Services
from pcqc_clinic.known_world import KnownWorld
from pcqc_peers import expected_answer
from pcqc_peers.expected_answer import ExpectedAnswer

CASES = [make_case(0)]
METHOD = ExpectedAnswer("Expected", "expected_answer", terminal_group=2, imagined_answers=2)


def say(case, rollout, turn, k):
    if turn == 1:
        return "Final Answer: B"
    return ("Question: p?", "Question: q?", "Question: p?", "hm")[k]


def chances(text):
    """The scorer's belief: an answer of yes speaks for A, one of no for B; no idea for neither."""
    last = text.split("Patient response: ")[-1] if "Patient response: " in text else ""
    if last.startswith("Yes"):
        return (0.6, 0.2, 0.1, 0.1)
    return (0.1, 0.8, 0.05, 0.05) if last.startswith("No.") else (0.3, 0.26, 0.22, 0.22)


class Drawn:
    """Options A and B, one patient each."""

    def choice(self, options, count, p):
        assert (options, count) == (4, 2)
        return np.array([0, 1])


def draw(monkeypatch, answer, **more):
    monkeypatch.setattr(expected_answer, "generator", lambda *names: Drawn())
    belief = np.array([[0.5, 0.5, 0, 0]] * 2)
    monkeypatch.setattr(expected_answer, "actor_beliefs", lambda context, played: [belief])
    asked = []

    def patient(prompt):
        asked.append(prompt)
        return answer(prompt)

    context = scripted_context(say, CASES, answer=patient, name="1/update/1")
    services = Services(None, 1, scripted_scorer(chances, context.chat), **more)
    return METHOD.collect_rollouts(services, context, CASES, 1).groups[0], asked


def imagining(prompt):
    """A patient with flu has p, one with a cold has not; nobody knows q."""
    if "Patient atomic facts" in prompt:
        return "No."
    if "\np?" not in prompt:
        return "No idea"
    return "Yes." if 'is "flu"' in prompt else "No."


def test_the_utility_is_the_mean_probability_of_the_guessed_options(monkeypatch):
    """p: flu after yes 0.6, cold after no 0.8; q and nothing: 0.3 and 0.26."""
    group, asked = draw(monkeypatch, imagining)
    assert group.utilities == pytest.approx([0.7, 0.28, 0.7, 0.28])
    assert group.credits[:2] == pytest.approx([0.21 / 0.24249, -0.21 / 0.24249], rel=1e-3)
    imagined = [prompt for prompt in asked if "imagine it" in prompt]
    assert len(imagined) == 2 * 3  # the response without a question asks nobody
    for prompt in imagined:
        assert "Patient 0 has fever." in prompt
        assert "rash" not in prompt  # a fact of the case
        assert '"Which diagnosis?"' in prompt


def test_of_a_world_only_what_it_knows_is_asked_for():
    from_world = ExpectedAnswer("W", "expected_answer", imagined_from="world")
    assert from_world.needs == METHOD.needs | {"world"}
    assert "scorer" in METHOD.needs


def test_a_patient_of_the_world_has_the_disease_and_would_have_said_the_same():
    rng = np.random.default_rng(0)
    world = draw_world(
        rng,
        diseases=8,
        complaints=4,
        complaint_odds=3,
        noise=0.0,
    )
    names = world.diseases[:4]
    options = dict(zip("ABCD", names, strict=True))
    case = make_case(options=options, initial=state_complaint(world.complaints[0], "plain"))
    exchanges = (
        Exchange(ask(names[0]), f"{names[0]} spots present."),
        Exchange(ask(names[1]), "The patient cannot answer this question."),
    )
    facts = KnownWorld(world).facts(case, Turn([], exchanges, ()), 2, rng)
    # Without noise a disease has its own sign alone; the first was stated, the second withheld.
    present = {fact.split()[0] for fact in facts if fact.endswith("present.")}
    assert present == {names[0], names[2]}
    assert len(facts) == 8 - 1
    assert not any(fact.startswith(names[1]) for fact in facts)
