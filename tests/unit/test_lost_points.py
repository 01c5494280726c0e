"""Lost points split by hand, in a world of two diseases and three findings."""

from itertools import combinations

import numpy as np
import pytest
from helpers import INSTRUCTION, make_tokenizer, scripted_roles
from small_worlds import CASE, UNKNOWN, WORLD

from clinic_env.posterior import Values
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext, roll_out
from pcqc_clinic.lost_points import PLACES, ExactPlaces, shapley, split

ANSWERS = {"coral": "coral spots present.", "olive": "olive spots absent.", "jade": UNKNOWN}


def doctor(says) -> RolloutContext:
    """A doctor whose words are a function of the dialogue's text; the patient knows the facts."""
    chat = ChatFormat(make_tokenizer(), INSTRUCTION)

    def answer(text):
        question = text.partition("Doctor's question:")[2]
        (named,) = [finding for finding in ANSWERS if finding in question]
        return ANSWERS[named]

    return scripted_roles(chat, lambda prompt, _: says(chat.decode(prompt)), answer)


def parts(says) -> dict[str, float]:
    split_points = split(doctor(says), Values(WORLD), [CASE], seed=1, benchmark="test")
    return {name: pytest.approx(values[0]) for name, values in split_points.items()}


def last_thought(text: str) -> str:
    """The option that the last thought names last."""
    return text.rpartition("</think>")[0].rpartition("<think>")[2].split(", ")[-1]


def follows_its_thought(text: str) -> str:
    """Asks about jade, which says nothing, then names what its thought does: azure, unless told."""
    if text.endswith("Question:"):
        return " Any jade spots?"
    begun = "" if text.endswith(("</think>", "Final Answer:")) else "<think>azure</think>"
    label = "A" if last_thought(text + begun) == "amber" else "B"
    if text.endswith("Final Answer:"):
        return f" {label}"
    asked = "Any" in text
    return begun + (f"Final Answer: {label}" if asked else "Question: Any jade spots?")


def test_asking_and_remembering_are_told_apart():
    """Right (amber) takes coral asked about, and an exact thought or the posterior's diagnosis.

    Worth by exact places: asking and remembering 1, one of them 0; the posterior's diagnosis 1
    after coral, 1/2 after jade. More questions about jade change nothing. Over the six orders of
    the three, asking brings 0, 1 or 1/2, and so on: 5/12, 2/12 and 5/12.
    """
    assert parts(follows_its_thought) == {
        "policy": 0,
        "exact": 1,
        "asking": 5 / 12,
        "remembering": 2 / 12,
        "concluding": 5 / 12,
        "stopping": 0,
    }


def stops_at_once(text: str) -> str:
    """Would ask about coral and conclude from it, but names azure before it has asked."""
    if text.endswith("Question:"):
        return " Any coral spots?"
    answer = " A" if "coral spots present" in text else " B"
    return answer if text.endswith("Final Answer:") else f"Final Answer:{answer}"


def test_stopping_too_early_is_lost_in_stopping():
    """Worth with exact stopping 1, without it 0, or 1/2 by the posterior: 3/4 and 1/4."""
    assert parts(stops_at_once) == {
        "policy": 0,
        "exact": 1,
        "asking": 0,
        "remembering": 0,
        "concluding": 1 / 4,
        "stopping": 3 / 4,
    }


def never_stops(text: str) -> str:
    """Asks about coral until its turns are over; made to answer, it is right."""
    if text.endswith("Final Answer:"):
        return " A"
    return "<think>amber</think>" * (not text.endswith("</think>")) + "Question: Any coral spots?"


def test_a_consultation_without_a_diagnosis_is_lost_in_stopping():
    lost = parts(never_stops)
    assert (lost["policy"], lost["exact"], lost["stopping"]) == (0, 1, 1)


def test_the_policys_own_consultations_are_those_of_the_evaluation():
    context = doctor(follows_its_thought)
    ((own,),) = roll_out(context, [CASE], rollouts=1, seed=1, stage="evaluation/test")
    player = ExactPlaces(context, Values(WORLD), frozenset(), "1/evaluation/test")
    (again,) = player.play([CASE])
    assert again.executed == own.executed
    assert again.predicted == own.predicted == "B"


def test_the_parts_of_every_case_add_up_to_what_it_loses():
    rng = np.random.default_rng(0)
    subsets = [frozenset(c) for size in range(5) for c in combinations(PLACES, size)]
    worth = {places: rng.random(200) for places in subsets}
    lost = worth[frozenset(PLACES)] - worth[frozenset()]
    np.testing.assert_allclose(np.sum([*shapley(worth).values()], axis=0), lost, atol=1e-12)
