"""What is read and written in a consultation, word for word and token for token."""

import re

import pytest
from helpers import INSTRUCTION, PROTOCOL, make_case, make_tokenizer, scripted_context

from pcqc.cases import prompts
from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import Action, Exchange, parse_action
from pcqc.consultation import roll_out
from pcqc.consultation.question_mask import question_start

LABELS = ("A", "B", "C", "D")
EXCHANGES = (Exchange("Any cough?", "No cough."), Exchange("Any rash?", "Has rash."))


ANSWERS = {
    "Final Answer: B": "B",
    "Final Answer: B. flu": "B",
    "Final Answer: [B]": "B",
    "Final Answer: (C)": "C",
    "Final Answer: **B**": "B",
    "**Final Answer:** B": "B",
    "Final Answer:\nD\n": "D",
    "Final Answer: A: flu": "A",
    "Final Answer: A - flu": "A",
    "Final Answer: 'B'": "B",
    'Final Answer: "B".': "B",
    "Final Answer: `B`": "B",
    "Final Answer: {B}": "B",
    "Final Answer: B \nIt fits.": "B",
    "Final Answer: B Question: Any cough?": "B",
    "Question: Any cough? Final Answer: B": "B",
    "Final Answer: B\nQuestion: Any cough?": "B",
    "Final Answer: Z. Final Answer: A": "A",
    "Final Answer: C Final Answer: A": "C",
    "<think>Final Answer: A</think>Final Answer: B": "B",
    "<think>a</think>x<think>Final Answer: A</think>Final Answer: B": "B",
}
QUESTIONS = {
    "Question: Any cough?": "Any cough?",
    "I see.\nQuestion:\nAny cough?\n": "Any cough?",
    "<think>Final Answer: A</think>Question: Any cough?": "Any cough?",
    "<think>Question: Any rash?</think>Question: Any cough?": "Any cough?",
    "Question: Any cough? Final Answer: Z": "Any cough?",
    "Final Answer: Z Question: Any cough?": "Any cough?",
    "Question: first? Question: second?": "first? Question: second?",
}
SILENT = (
    *("", "Any cough?", "question: any cough?", "Question:", "Question:   \n"),
    *("<think>Final Answer: B", "<think>Question: Any cough?", "<think>Final Answer: B</think>"),
    "<think>a</think> well <think>Final Answer: B",
)
ACTIONS = {
    **{response: Action("final", label) for response, label in ANSWERS.items()},
    **{response: Action("question", text) for response, text in QUESTIONS.items()},
    **dict.fromkeys(SILENT, Action("none")),
}


@pytest.mark.parametrize(("response", "action"), ACTIONS.items())
def test_a_valid_answer_precedes_a_question_and_thinking_says_nothing(response, action):
    assert parse_action(response, LABELS) == action


@pytest.mark.parametrize("text", ["E", "H", "Bronchitis", "b", "", "A cold is likely.", "B flu"])
def test_an_answer_outside_the_case_s_labels_is_invalid(text):
    action = parse_action(f"Final Answer: {text}", LABELS)
    assert action.kind == "final"
    assert not action.valid
    assert parse_action("Final Answer: 2", ("1", "2")) == Action("final", "2")


@pytest.fixture(scope="module")
def listings(paper_source):
    return re.findall(r"\\begin{lstlisting}\n(.*?)\\end{lstlisting}", paper_source, re.S)


def test_the_patient_prompt_is_the_papers(listings):
    (printed,) = [text for text in listings if text.startswith("You are a medical information")]
    expected = printed.replace("{atomic facts joined by newline}", "No cough.\nHas {rash}.")
    expected = expected.replace("{doctor question}", "Any {fever}?")
    assert prompts.patient_prompt(("No cough.", "Has {rash}."), "Any {fever}?") == expected
    assert prompts.UNANSWERABLE in printed


EVIDENCE = """\
Patient 0 has fever.
Doctor question: Any cough?
Patient response: No cough.
Doctor question: Any rash?
Patient response: Has rash."""
OPTIONS = "A. flu\nB. cold\nC. croup\nD. asthma"


def test_the_scorer_prompt_word_for_word():
    assert prompts.scorer_prompt(make_case().public, EXCHANGES) == (
        f"Clinical evidence:\n{EVIDENCE}\n"
        f"Question: Which diagnosis?\nOptions:\n{OPTIONS}\n\nAnswer:"
    )


def test_the_scorer_prompt_is_the_papers(listings):
    (printed,) = [text for text in listings if text.startswith("Clinical evidence:")]
    for gap, text in (
        ("{initial information and observed exchanges}", EVIDENCE),
        ("{clinical decision question}", "Which diagnosis?"),
        ("{label}. {option text}\n...", OPTIONS),
    ):
        printed = printed.replace(gap, text)
    assert prompts.scorer_prompt(make_case().public, EXCHANGES) == printed.rstrip("\n")


def question_text(chat, response: str) -> str | None:
    """Text of the question tokens of a response, by the mask."""
    ids = [*chat.encode(response), chat.end_of_turn]
    start = question_start(chat, ids)
    return None if start is None else chat.tokenizer.decode(ids[start:])


@pytest.mark.parametrize(
    ("response", "credited"),
    [
        ("Question: any cough?", " any cough?<|im_end|>"),
        ("Well. Question: any? Question: more?", " any? Question: more?<|im_end|>"),
        ("<think>Question: x</think>Question: any", " any<|im_end|>"),
        ("Question: x</think>Question: any", " any<|im_end|>"),
        ("Question: x<think>y</think>Question: any", " any<|im_end|>"),
        ("<think>a</think>Question: b<think>Question: c</think>Question: any", " any<|im_end|>"),
        ("Question:", "<|im_end|>"),
        ("Final Answer: A Question: any", " any<|im_end|>"),
        ("<think>Question: x", None),
        ("<think>Question: x</think> any", None),
        ("Question any", None),
        ("", None),
    ],
)
def test_question_tokens_follow_the_first_visible_marker(chat, response, credited):
    assert question_text(chat, response) == credited


@pytest.mark.parametrize("length", range(1, 10))
def test_the_marker_is_found_however_it_is_split(length):
    """Tokens of 1 to 9 characters of the marker, the rest character by character."""
    marker = "Question:"
    chat = ChatFormat(make_tokenizer([f"\n{marker[:length]}"]), INSTRUCTION)
    assert question_text(chat, "so\nQuestion: any?") == " any?<|im_end|>"


@pytest.mark.parametrize("joined", ["Question: any", "so Question: any", "Question:\n"])
def test_a_token_shared_with_the_marker_is_marker(joined):
    chat = ChatFormat(make_tokenizer([joined]), INSTRUCTION)
    response = f"so {joined} cough" if not joined.startswith("so") else f"{joined} cough"
    assert chat.encode(response)[-1] == chat.encode(" cough")[0]
    assert question_text(chat, response) == " cough<|im_end|>"


def test_question_tokens_never_depend_on_what_comes_later(chat):
    ids = chat.encode("<think>x</think>Question: any cough? more")
    start = question_start(chat, ids)
    assert all(question_start(chat, ids[:n]) == start for n in range(start, len(ids) + 1))
    assert all(question_start(chat, ids[:n]) is None for n in range(start))


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        ("<think>abc</think>Question: any", "Question: any"),
        ("<think>a</think>b<think>c</think>Question: any", "Question: any"),
        ("Question: any", "Question: any"),
        ("<think>abc", "<think>abc"),
    ],
)
def test_thinking_stops_after_its_last_closing_tag(chat, response, kept):
    ids = chat.encode(response)
    assert chat.tokenizer.decode(ids[chat.thinking_stop(ids) :]) == kept


SPOKEN = (
    "<think>first</think>Question: any cough?",
    "<think>second</think>Question: any rash?",
    "<think>third</think>Final Answer: B",
)


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_recorded_conversation_has_the_tokens_of_a_consultation(chat, policy):
    case = make_case()
    rules = PROTOCOL.__class__(**{**vars(PROTOCOL), "earlier_thinking": policy})
    context = scripted_context(lambda c, r, turn, k: SPOKEN[turn], [case], protocol=rules)
    ((consultation,),) = roll_out(context, [case], rollouts=1, seed=1, stage="test")
    messages = [
        {"role": "system", "content": INSTRUCTION},
        {"role": "user", "content": prompts.actor_prompt(case.public)},
    ]
    for turn, spoken in enumerate(SPOKEN):
        messages.append({"role": "assistant", "content": spoken})
        if turn < 2:
            messages.append({"role": "user", "content": "No cough."})
    assert chat.turns(messages, policy) == [
        (turn.state, list(turn.executed.completion.tokens)) for turn in consultation.turns
    ]
    history = chat.tokenizer.decode(consultation.turns[2].state)
    assert ("<think>first</think>" in history) == (policy == "keep")
    assert "any cough?" in history


def test_the_patient_is_trained_on_answers_to_questions_alone(chat):
    texts = ("", "", "I am not sure.", prompts.REMINDER, SPOKEN[0], "No cough.", SPOKEN[2])
    roles = ("system", "user", *("assistant", "user") * 2, "assistant")
    messages = [{"role": r, "content": text} for r, text in zip(roles, texts, strict=True)]
    ((prompt, answer),) = chat.answers(messages, ("No cough.",))
    assert prompt == chat.patient(("No cough.",), "any cough?")
    assert chat.decode(answer) == "No cough."


def test_sampled_tokens_are_never_tokenised_again():
    """A response in an unusual tokenisation stays as it was sampled, in history and log."""
    tokenizer = make_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(c) for c in "Question: any?"]
    assert letters != tokenizer.encode("Question: any?")
    case = make_case()
    context = scripted_context(lambda *place: "Question: any?", [case], tokenizer=tokenizer)
    end = context.chat.end_of_turn
    context.actor.engine._reply = lambda prompt, stream: [*letters, end]
    ((consultation,),) = roll_out(context, [case], rollouts=1, seed=1, stage="test")
    first, second = consultation.turns[:2]
    assert first.executed.action == Action("question", "any?")
    assert second.state[: len(first.state)] == first.state
    assert second.state[len(first.state) :][: len(letters) + 1] == [*letters, end]
