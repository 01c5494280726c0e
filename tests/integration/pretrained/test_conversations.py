"""SFT conversations written from cases: facts word for word, in order, then the case's answer."""

import numpy as np
import pytest
from helpers import INSTRUCTION, make_case

from data_prep.conversations import TOPICS, topic_of, write_conversation, write_conversations
from pcqc.cases.prompts import UNANSWERABLE, parse_action

FACTS = (
    "Chest x-ray shows an infiltrate.",
    "The cough is dry.",
    "His pulse is 110/min.",
    "He takes lisinopril.",
    "He has smoked for 20 years.",
    "The sputum smells.",
)
CASE = make_case(facts=FACTS)


@pytest.mark.parametrize(
    ("fact", "topic"),
    [
        ("The cough is dry.", "symptoms"),
        ("Past medical history is significant for asthma.", "medical history"),
        ("Current medications include aspirin.", "medications"),
        ("Her mother had breast cancer.", "family"),
        ("The mother reports that he has been coughing.", "family"),
        ("She does not smoke.", "habits"),
        ("Blood pressure is 120/80 mm Hg.", "vital signs"),
        ("Physical examination shows edema.", "examination"),
        ("Serum sodium is 136 mEq/L.", "laboratory"),
        ("A CT scan of the chest is normal.", "imaging"),
        ("For example, he cannot run.", "symptoms"),
    ],
)
def test_a_fact_has_a_topic(fact, topic):
    assert topic_of(fact).name == topic


@pytest.mark.parametrize("questions", range(7))
def test_a_conversation_asks_and_then_answers(questions):
    rng = np.random.default_rng(questions)
    messages = write_conversation(CASE, INSTRUCTION, questions, rng)
    roles = [m["role"] for m in messages]
    assert roles == [
        "system",
        "user",
        *["assistant", "user"] * ((len(roles) - 3) // 2),
        "assistant",
    ]
    *asked, final = [parse_action(m["content"], "ABCD") for m in messages[2::2]]
    # Five topics have facts, and one more is asked in vain.
    assert len(asked) == min(questions, 6)
    assert all(action.kind == "question" for action in asked)
    assert (final.kind, final.text) == ("final", CASE.answer)
    order = [topic.question for topic in TOPICS]
    places = [order.index(action.text) for action in asked]
    assert places == sorted(set(places))


def test_answers_are_the_facts_of_the_topic_word_for_word():
    messages = write_conversation(CASE, INSTRUCTION, 6, np.random.default_rng(0))
    answers = [m["content"] for m in messages[3::2]]
    assert "The cough is dry. The sputum smells." in answers
    assert answers.count(UNANSWERABLE) == 1
    spoken = " ".join(answers)
    assert all(fact in spoken for fact in FACTS)


def test_the_answer_is_not_said_before_the_end():
    for message in write_conversation(CASE, INSTRUCTION, 6, np.random.default_rng(0))[2:-1]:
        assert CASE.options[CASE.answer] not in message["content"]


def test_equal_seeds_write_equal_rows():
    rows = [
        write_conversations([CASE] * 3, INSTRUCTION, (1, 3), np.random.default_rng(5))
        for _ in range(2)
    ]
    assert rows[0] == rows[1]
    assert rows[0][0]["facts"] == list(FACTS)
