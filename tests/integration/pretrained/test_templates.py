"""Prompts are the model's own template's; what differs from it is counted and shown."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import INSTRUCTION, make_case, qwen3_chat

from data_prep.conversations import write_conversations
from data_prep.template_check import compare_renderings
from pcqc.cases.chat import ChatFormat

CASES = [make_case(n, facts=("No cough.", "Pulse is 80/min.", "A rash.")) for n in range(6)]
ROWS = write_conversations(CASES, INSTRUCTION, (2,), np.random.default_rng(0))


@pytest.fixture(scope="module")
def qwen3():
    return qwen3_chat()


@pytest.fixture
def any_chat(request, qwen3):
    if request.param == "qwen3":
        return qwen3
    return ChatFormat(request.getfixturevalue("smollm2"), INSTRUCTION)


SMOLLM2 = pytest.param("smollm2", marks=pytest.mark.slow)
both = pytest.mark.parametrize("any_chat", ["qwen3", SMOLLM2], indirect=True)


def own_rendering(chat: ChatFormat, messages: list[dict], **options) -> list[int]:
    """The template's own tokens, by the library's own call."""
    return chat.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False, **options
    )


@both
def test_an_opening_is_the_templates_own(any_chat):
    opening = ROWS[0]["messages"][:2]
    assert any_chat.open(CASES[0].public) == own_rendering(any_chat, opening, enable_thinking=True)


@both
def test_the_patients_prompt_is_the_templates_own_without_thinking(any_chat):
    prompt = any_chat.ask("Any cough?")
    message = [{"role": "user", "content": "Any cough?"}]
    assert prompt == own_rendering(any_chat, message, enable_thinking=False)


@both
def test_every_state_starts_with_the_one_before_and_what_was_said(any_chat):
    for row in ROWS:
        turns = any_chat.turns(row["messages"], "keep")
        for (state, response), (following, _) in pairwise(turns):
            assert following[: len(state) + len(response)] == [*state, *response]


def test_smollm2_agrees_with_its_template_and_with_chatml(smollm2):
    agreement = compare_renderings(ChatFormat(smollm2, INSTRUCTION), ROWS, "keep")
    assert agreement.turns == agreement.as_template == agreement.as_chatml == 18
    assert agreement.differences == []


def test_kept_thinking_departs_from_qwen3s_template_and_that_is_shown(qwen3):
    """Qwen3's template drops earlier thinking, so first states alone are its own."""
    agreement = compare_renderings(qwen3, ROWS, "keep")
    assert (agreement.turns, agreement.as_chatml, agreement.as_template) == (18, 18, 6)
    first = agreement.differences[0]
    assert (first["case_id"], first["turn"], first["rendering"]) == ("case-0", 1, "chat template")
    assert first["ours"].startswith("<think>")
    assert first["theirs"].startswith("Question:")


def test_dropped_thinking_agrees_with_qwen3s_template(qwen3):
    agreement = compare_renderings(qwen3, ROWS, "drop")
    assert agreement.as_template == agreement.turns == 18
    assert agreement.as_chatml == 6


def test_of_released_rows_the_last_turn_is_compared(qwen3):
    rows = [{**row, "train": "last"} for row in ROWS]
    assert compare_renderings(qwen3, rows, "keep").turns == 6


def test_another_system_message_is_counted(qwen3):
    other = [{"role": "system", "content": "Choose A/B/C/D."}, *ROWS[0]["messages"][1:]]
    assert (
        compare_renderings(qwen3, [{**ROWS[0], "messages": other}], "keep").other_instruction == 1
    )
    assert compare_renderings(qwen3, ROWS, "keep").other_instruction == 0
