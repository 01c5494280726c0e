"""Writes SFT conversations from cases by a rule, for studies without released conversations.

The doctor asks about one topic after another, in the usual order of history taking. The patient
answers with the case's facts on it, word for word, or says that it cannot answer. The doctor ends
with the correct answer. The conversations teach the protocol, not how to choose questions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data_prep.parts import strip_numbering
from pcqc.cases import prompts
from pcqc.cases.case import Case


@dataclass(frozen=True)
class Topic:
    """A topic to ask about, and how a fact on it is recognised."""

    name: str
    question: str
    words: str  # regular expression, matched against the fact in lower case


# In the order in which they are asked.
TOPICS = (
    Topic("symptoms", "What other symptoms does the patient have?", ""),
    Topic(
        "medical history",
        "What is the patient's past medical history?",
        r"histor|diagnos|surg|hospitali|vaccin|immuni[sz]|pregnan|menstru|\bborn\b|deliver|allerg",
    ),
    Topic(
        "medications",
        "Which medications does the patient take?",
        r"medication|\btak(es|ing)\b|treated with|prescri|antibiotic|aspirin|insulin|metformin",
    ),
    Topic(
        "family",
        "Does any disease run in the patient's family?",
        r"famil(y|ial)|\b(mother|father|brother|sister|uncle|aunt|grand\w+|siblings?|parents?)\b.*"
        r"\b(has|had|have|died|diagnosed|disease|cancer|diabetes)",
    ),
    Topic(
        "habits",
        "What are the patient's habits and living conditions?",
        r"smok|drink|alcohol|cigarette|cocaine|illicit|sexual|\bworks?\b|travel|\blive[ds]?\b|diet",
    ),
    Topic(
        "vital signs",
        "What are the patient's vital signs?",
        r"temperature|pulse|blood pressure|respirat(ions|ory rate)|oxygen saturation|vital sign"
        r"|heart rate|percentile|\bbmi\b",
    ),
    Topic(
        "examination",
        "What does the physical examination show?",
        r"\bexam(s|ined|ination)?\b|auscultat|palpat|tender|reflex|murmur|\blungs?\b|abdomen|appears|lesion|\brash\b",
    ),
    Topic(
        "laboratory",
        "What do the laboratory studies show?",
        r"laborator|\blabs?\b|serum|\bcount\b|urin(e|alysis)|culture|h(a)?emoglobin|biops|mg/dl"
        r"|meq|\bu/l\b|stain|microscop|bacteri|blood gas|antibod|cerebrospinal|leukocyte|platelet",
    ),
    Topic(
        "imaging",
        "What does imaging show?",
        r"x-ray|\bct\b|\bmri\b|ultraso|\becg\b|electrocardio|echocardio|radiograph|imag(e|ing)"
        r"|photograph|angiogra|endoscop|tomograph",
    ),
)
# A fact may match several topics; test results are the most specific.
_LAST_FIRST = tuple(reversed(TOPICS))


def topic_of(fact: str) -> Topic:
    """The topic of a fact; a fact that matches no other topic is a symptom."""
    text = fact.lower()
    return next(topic for topic in _LAST_FIRST if re.search(topic.words, text))


def write_conversation(
    case: Case, instruction: str, questions: int, rng: np.random.Generator
) -> list[dict[str, str]]:
    """Messages of a conversation on a case, from system to the final answer.

    Args:
        case: its facts are the answers, its label is the final one.
        instruction: system message.
        questions: how many to ask; fewer if the facts cover fewer topics.
        rng: draws the topics, from those of the facts and one other.
    """
    facts = {topic: [] for topic in TOPICS}
    for fact in strip_numbering(list(case.facts))[0]:
        facts[topic_of(fact)].append(fact)
    unknown = [i for i, topic in enumerate(TOPICS) if not facts[topic]]
    known = [i for i, topic in enumerate(TOPICS) if facts[topic]]
    candidates = known + [int(i) for i in rng.permutation(unknown)[:1]]
    drawn = sorted(rng.permutation(candidates)[:questions])
    messages = [
        {"role": "system", "content": instruction},
        {"role": "user", "content": prompts.actor_prompt(case.public)},
    ]
    for topic in (TOPICS[i] for i in drawn):
        thought = f"This is not settled yet. I should ask about {topic.name}."
        messages.append(_say(thought, f"{prompts.QUESTION_MARKER} {topic.question}"))
        answer = " ".join(facts[topic]) or prompts.UNANSWERABLE
        messages.append({"role": "user", "content": answer})
    thought = f"What is known fits {case.options[case.answer].strip()} best."
    messages.append(_say(thought, f"{prompts.ANSWER_MARKER} {case.answer}"))
    return messages


def write_conversations(
    cases: Sequence[Case], instruction: str, counts: Sequence[int], rng: np.random.Generator
) -> list[dict]:
    """Rows of SFT data: a conversation on each case, with a number of questions from `counts`.

    The rows hold the facts too: the patient is trained on its own prompt.
    """
    return [
        {
            "case_id": case.case_id,
            "messages": write_conversation(case, instruction, int(rng.choice(counts)), rng),
            "facts": list(case.facts),
            "origin": case.origin,
        }
        for case in cases
    ]


def _say(thought: str, action: str) -> dict[str, str]:
    """The doctor's message, in the form of Qwen3's own template: thinking, a blank line, words."""
    thinking = f"{prompts.THINK_OPEN}\n{thought}\n{prompts.THINK_CLOSE}"
    return {"role": "assistant", "content": f"{thinking}\n\n{action}"}
