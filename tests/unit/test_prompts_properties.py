"""Parsing and masks on texts that nobody thought of."""

from helpers import INSTRUCTION, make_tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import parse_action, visible
from pcqc.consultation.question_mask import question_start

settings.register_profile("pcqc", max_examples=80, derandomize=True, deadline=None)
settings.load_profile("pcqc")

LABELS = ("A", "B", "C", "D")
PARTS = ["<think>", "</think>", "Question:", "Final Answer:", " A", " B.", " Z", " any?", "\n", "x"]
responses = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
CHAT = ChatFormat(make_tokenizer(["x\n", ": A", "\nQuestion: any"]), INSTRUCTION)


@given(responses)
def test_question_tokens_begin_right_after_the_first_visible_marker(response):
    ids = CHAT.encode(response)
    start = question_start(CHAT, ids)
    if "Question:" not in visible(response):
        assert start is None
        return
    before = visible(CHAT.tokenizer.decode(ids[:start]))
    assert "Question:" in before
    shorter = visible(CHAT.tokenizer.decode(ids[: start - 1]))
    ended = CHAT.thinking_stop(ids) == start
    assert ended or "Question:" not in shorter
    assert start >= CHAT.thinking_stop(ids)


@given(responses)
def test_a_parsed_question_has_question_tokens(response):
    if parse_action(response, LABELS).kind == "question":
        assert question_start(CHAT, [*CHAT.encode(response), CHAT.end_of_turn]) is not None


AFTER = "<|im_end|>\n<|im_start|>user\nNo.<|im_end|>\n<|im_start|>assistant\n"


def continued(response, policy):
    """What a response adds to the state, with the answer "No."."""
    ids = [*CHAT.encode(response), CHAT.end_of_turn]
    return CHAT.tokenizer.decode(CHAT.continue_state([1, 2, 3], ids, "No.", policy)[3:])


@given(responses)
@example("<think>x</think>\n\n any?")
@example("<think>x</think>\n\nQuestion: any?")
def test_dropping_thinking_leaves_what_was_visible_without_line_breaks_before_it(response):
    assert continued(response, "keep") == response + AFTER
    _, closed, rest = response.rpartition("</think>")
    left = rest.lstrip("\n") if closed else rest
    # A line break stays that shares its token with what follows.
    own = rest[-len(left) - 1 :] if left.startswith("Question: any") else left
    assert continued(response, "drop") == own + AFTER
