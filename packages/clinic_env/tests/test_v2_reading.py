"""What plain English does: paraphrases of one turn, and texts that are none."""

import pytest

from clinic_env.v2.reading import (
    NO_OPTION,
    NOT_ONE_TURN,
    SEVERAL_FINDINGS,
    SEVERAL_OPTIONS,
    Turn,
    read,
)
from clinic_env.world import FINDINGS

OPTIONS = dict(zip("ABCDEF", ("violet", "amber", "coral", "olive", "jade", "ivory"), strict=True))

# All of them ask about amber spots.
QUESTIONS = [
    "Question: Any amber spots?",
    "question: any amber spots",
    "Amber spots?",
    "amber",
    "amber?",
    "AMBER SPOTS",
    "Any amber spots?",
    "Do you have amber spots",
    "Do you have any amber spots?",
    "Have you noticed amber spots?",
    "Have you got amber-coloured spots anywhere?",
    "Are there amber spots on your skin?",
    "Is there any sign of amber spots?",
    "Did amber spots appear?",
    "Could you check for amber spots?",
    "Can you tell me whether you have amber spots?",
    "Please tell me about amber spots.",
    "I would like to know if there are amber spots.",
    "I'd like to ask about amber spots",
    "Let me ask about the amber spots.",
    "Next, amber spots: present or absent?",
    "What about amber spots?",
    "And amber?",
    "Show me any amber spots, please.",
    "**Question:** Any *amber* spots?",
    "`Question: Any amber spots?`",
    "Question - amber spots?",
    "Thank you. Do you have amber spots?",
    "You said there are no coral spots. Do you have amber spots?",
    "Since coral spots are absent, do you have amber spots?",
    "I am thinking of jade. Any amber spots?",
    "<think>Coral or amber? Final Answer: A</think>Question: Any amber spots?",
    "<think>coral</think>\n\nAmber spots?",
    "Is it amber spots that you have?",
    "You have amber spots, right?",
]

# All of them name option B, amber.
ANSWERS = [
    "Final Answer: B",
    "Final answer: b.",
    "final answer is B",
    "FINAL ANSWER: (B)",
    "Final Answer: B (amber)",
    "Final Answer: B. amber",
    "Final Answer: B - amber",
    "Final Answer: amber",
    "Final Answer: amber (B)",
    "Final Answer: [B]",
    "**Final Answer:** B",
    "Final Answer:\nB",
    "Final Answer: option B, since amber spots are present and coral spots are absent.",
    "Final Answer: B. Amber spots are present, coral spots are not.",
    "Final diagnosis: amber",
    "B",
    "(B)",
    "b",
    "B: amber",
    "Option B",
    "Answer: B",
    "The answer is B.",
    "My diagnosis is amber.",
    "Diagnosis: amber (B)",
    "I think it is amber.",
    "The patient has amber.",
    "I'd go with B.",
    "I choose option B because amber spots are present.",
    "\\boxed{B}",
    '{"final_answer": "B"}',
    "<think>A? Any coral spots?</think>Final Answer: B",
    "Question: Any coral spots?\nFinal Answer: B",
]

NEITHER = {
    "": NOT_ONE_TURN,
    "hm": NOT_ONE_TURN,
    "I wonder.": NOT_ONE_TURN,
    "What is the diagnosis?": NOT_ONE_TURN,
    "Any spots?": NOT_ONE_TURN,
    "Do you have a fever?": NOT_ONE_TURN,
    "<think>Any amber spots?</think>": NOT_ONE_TURN,
    "Any amber or coral spots?": SEVERAL_FINDINGS,
    "Amber? Coral?": SEVERAL_FINDINGS,
    "Question: amber, coral, jade spots?": SEVERAL_FINDINGS,
    "Question: Any amber spots?\nQuestion: Any coral spots?": SEVERAL_FINDINGS,
    "Any amber spots? Any \uff43\uff4f\uff52\uff41\uff4c spots?": SEVERAL_FINDINGS,
    "Final Answer: A or B": SEVERAL_OPTIONS,
    "Final Answer: A, B, C": SEVERAL_OPTIONS,
    "Final Answer: A (amber)": SEVERAL_OPTIONS,
    "Final Answer: A\nFinal Answer: B": SEVERAL_OPTIONS,
    "Final Answer: violet and amber": SEVERAL_OPTIONS,
    "Final Answer: none of them": NO_OPTION,
    "Final Answer: H": NO_OPTION,
    "Final Answer: not B": NO_OPTION,
    "Final Answer:": NO_OPTION,
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_in_other_words_asks_about_amber_spots(text):
    assert read(text, FINDINGS, OPTIONS) == Turn(finding="amber")


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_in_other_words_names_option_b(text):
    assert read(text, FINDINGS, OPTIONS) == Turn(option="B")


@pytest.mark.parametrize(("text", "reply"), NEITHER.items())
def test_what_is_not_one_turn_is_told_so(text, reply):
    assert read(text, FINDINGS, OPTIONS) == Turn(reply=reply)


def test_there_are_fifty_paraphrases_and_more():
    assert len({*QUESTIONS, *ANSWERS}) == len(QUESTIONS) + len(ANSWERS) == 67


def test_every_finding_and_every_label_can_be_said():
    options = dict(zip("ABCDEFGH", FINDINGS, strict=False))
    for finding in FINDINGS:
        assert read(f"Any {finding} spots?", FINDINGS, options).finding == finding
        assert read(f"Question: Any {finding} spots?", FINDINGS, options).finding == finding
    for label, name in options.items():
        assert read(f"Final Answer: {label}", FINDINGS, options).option == label
        assert read(f"Final Answer: {label} ({name})", FINDINGS, options).option == label


@pytest.mark.parametrize(
    "piece", ["since ", "final answer: A or ", "amber, coral, ", "<think>", "a'", "("]
)
def test_a_text_without_end_is_read_at_once(piece):
    """Only its last 4,096 characters count, and none of the patterns tries them over and over."""
    assert read(piece * 50_000, FINDINGS, OPTIONS).finding is None
