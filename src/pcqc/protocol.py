"""The words of a consultation: prompts, what an action says, which tokens are question tokens.

One place decides what the actor, the patient and the scorer read (Appendix B of the paper), how an
actor's response is parsed, and how dialogue turns become token ids under a model's chat template.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pcqc.cases import PublicCase
from pcqc.errors import UserError

QUESTION_MARKER = "Question:"
ANSWER_MARKER = "Final Answer:"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
# What the actor is told when its response was neither a question nor an answer.
REMINDER = "Please ask one question or give the final answer."
UNANSWERABLE = "The patient cannot answer this question."

# Appendix B.2; the numbering and wording are the paper's.
PATIENT_INSTRUCTION = """\
You are a medical information assistant. Your role is to help doctors by providing information \
strictly from patient data.

INSTRUCTIONS:
1. Search through the provided atomic facts for information that directly answers the doctor's \
question
2. If you find relevant atomic facts, provide the answer using ONLY that information
3. Do NOT add any medical analysis, inference, interpretation, or external knowledge
4. Do NOT make assumptions or draw conclusions beyond what is explicitly stated
5. If no atomic fact directly answers the question, respond with exactly this phrase: \
"The patient cannot answer this question."

Patient atomic facts:
{facts}

Doctor's question:
{question}

Your response:
"""


@dataclass(frozen=True)
class Exchange:
    """A question and the patient's answer to it, as they stand in the dialogue state O_t."""

    question: str
    answer: str


@dataclass(frozen=True)
class Action:
    """What a response says: a question, a final answer (`valid` or not), or neither."""

    kind: Literal["question", "final", "none"]
    text: str | None = None  # the question, or the label
    valid: bool = True

    @property
    def question(self) -> str | None:
        """What it asks; None where it asks nothing. A question is never empty."""
        return self.text if self.kind == "question" else None


def actor_prompt(case: PublicCase) -> str:
    """First user message: initial information, clinical question and options."""
    return f"{case.initial}\nProblem: {case.question}\nOptions: {case.options}"


def patient_prompt(facts: Sequence[str], question: str) -> str:
    """The patient's whole prompt: the facts and one question, and nothing of task or dialogue."""
    return PATIENT_INSTRUCTION.format(facts="\n".join(facts), question=question)


def scorer_prompt(case: PublicCase, exchanges: Sequence[Exchange]) -> str:
    """The scorer's prompt (Appendix B.3), which an option label continues after a space."""
    evidence = [case.initial]
    for exchange in exchanges:
        evidence.append(f"Doctor question: {exchange.question}")
        evidence.append(f"Patient response: {exchange.answer}")
    options = "\n".join(f"{label}. {text}" for label, text in case.options.items())
    return (
        "Clinical evidence:\n"
        + "\n".join(evidence)
        + f"\nQuestion: {case.question}\nOptions:\n{options}\n\nAnswer:"
    )


def visible(response: str) -> str:
    """What follows the last closed thinking, up to thinking that is still open."""
    return response.rpartition(THINK_CLOSE)[2].partition(THINK_OPEN)[0]


def parse_action(response: str, labels: Sequence[str]) -> Action:
    """Parse a response of the actor (Appendix A.3: a valid final answer precedes a question).

    Args:
        response: decoded actor tokens, thinking included; only what follows the thinking counts.
        labels: the case's option labels.

    Returns:
        A valid final answer if there is one anywhere, else the first question, else an invalid
        final answer, else an action of kind `none`.
    """
    text = visible(response)
    stated = [part.split(QUESTION_MARKER)[0].strip() for part in text.split(ANSWER_MARKER)[1:]]
    for answer in stated:
        if (label := _label(answer, labels)) is not None:
            return Action("final", label)
    if QUESTION_MARKER in text:
        question = text.split(QUESTION_MARKER, 1)[1].split(ANSWER_MARKER, 1)[0].strip()
        if question:
            return Action("question", question)
    if stated:
        return Action("final", stated[0][:40] or None, valid=False)
    return Action("none")


# A label, with what may stand before it; then a mark that closes it, a dash, or the line's end.
_STATED = re.compile(
    r"""[\s\[({*"'“‘`]* ([A-Za-z0-9]+) (?: [\])}*"'”’`.,:;] | \s+[-–—] | [^\S\n]*(?:\n|$) )""",
    re.VERBOSE,
)


def _label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer names: alone, quoted, in brackets, or set off from other words.

    The paper's form is the label alone (Appendix B.2). Where words follow without a mark between
    them, as in `A cold is likely`, the letter may be one of them, so that no label is read.
    """
    match = _STATED.match(answer)
    return match.group(1) if match and match.group(1) in labels else None


class ChatFormat:
    """Dialogue turns as token ids, under one tokenizer's own chat template.

    A consultation only ever appends: the opening prompt, then per turn the actor's sampled tokens
    and the template's tokens around the patient's answer. Those are found by rendering the
    template around a stand-in response, so that nothing sampled is decoded and tokenised again.
    """

    def __init__(self, tokenizer: Any, instruction: str):
        if tokenizer.chat_template is None:
            raise UserError(
                f"the tokenizer {tokenizer.name_or_path} has no chat template; add one to it"
            )
        self.tokenizer = tokenizer
        self.instruction = instruction

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with none added."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, thinking tags kept and the end-of-turn token dropped."""
        ids = list(ids)
        if ids and ids[-1] == self.end_of_turn:
            ids = ids[:-1]
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def render(self, messages: list[dict], thinking: bool = True) -> str:
        """Messages in the model's own template, up to where the assistant speaks."""
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
        )

    def open(self, case: PublicCase) -> list[int]:
        """The actor's prompt before its first turn."""
        messages = [
            {"role": "system", "content": self.instruction},
            {"role": "user", "content": actor_prompt(case)},
        ]
        return self.encode(self.render(messages))

    def patient(self, facts: Sequence[str], question: str) -> list[int]:
        """The patient's prompt; thinking is disabled (Appendix B.2)."""
        return self.ask(patient_prompt(facts, question))

    def ask(self, text: str) -> list[int]:
        """The prompt of a single message, thinking disabled."""
        return self.encode(self.render([{"role": "user", "content": text}], thinking=False))

    def after_action(self, action: Sequence[int], answer: str) -> list[int]:
        """Tokens between an action and the next one: its end, the answer, the next opening."""
        before, after = self._glue
        ids = self.encode(before + answer + after)
        ended = bool(action) and action[-1] == self.end_of_turn
        return ids[1:] if ended else ids

    def turns(
        self, messages: Sequence[dict[str, str]], earlier_thinking: str
    ) -> list[tuple[list[int], list[int]]]:
        """(state, response) token ids of each assistant turn of a recorded conversation.

        Built turn by turn exactly as a consultation is, so that SFT trains on the tokens that RL
        and evaluation will meet.
        """
        state = self.encode(self.render(list(messages[:2])))
        turns = []
        for position in range(2, len(messages), 2):
            response = [*self.encode(messages[position]["content"]), self.end_of_turn]
            turns.append((state, response))
            if position + 1 < len(messages):
                answer = messages[position + 1]["content"]
                state = self.continue_state(state, response, answer, earlier_thinking)
        return turns

    def answers(
        self, messages: Sequence[dict[str, str]], facts: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """(prompt, answer) token ids of each exchange, as seen by a patient with these facts."""
        pairs = []
        for asked, answered in zip(messages[2::2], messages[3::2], strict=False):
            question = parse_action(asked["content"], ()).text
            answer = [*self.encode(answered["content"]), self.end_of_turn]
            pairs.append((self.patient(facts, question), answer))
        return pairs

    def continue_state(
        self, state: Sequence[int], action: Sequence[int], answer: str, earlier_thinking: str
    ) -> list[int]:
        """The next dialogue state: the state, the action, and the answer to it.

        With `earlier_thinking` `drop`, the action's thinking is left out, with the blank lines
        after it, as Qwen3's template does. This is the one place where that policy acts.
        """
        kept = action if earlier_thinking == "keep" else action[self._spoken_start(action) :]
        return [*state, *kept, *self.after_action(action, answer)]

    def _spoken_start(self, action: Sequence[int]) -> int:
        """Index of the first token after the thinking that is more than a line break."""
        start = self.thinking_stop(action)
        while 0 < start < len(action) and not self.tokenizer.decode([action[start]]).strip("\n"):
            start += 1
        return start

    @cached_property
    def end_of_turn(self) -> int:
        """The token that ends an actor's turn: sampling stops there."""
        return self.encode(self._glue[0])[0]

    @cached_property
    def ending(self) -> int:
        """Number of tokens that end every state: the last turn's end and the actor's opening."""
        return len(self.encode(self._glue[1]))

    @cached_property
    def _glue(self) -> tuple[str, str]:
        """What the template puts between a response and an answer, and after the answer."""
        response, answer = "\u2402response\u2403", "\u2402answer\u2403"
        rendered = self.render(
            [
                {"role": "system", "content": self.instruction},
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": response},
                {"role": "user", "content": answer},
            ]
        )
        if rendered.count(response) != 1 or rendered.count(answer) != 1:
            raise UserError("the chat template does not print each turn once; use another model")
        before, after = rendered.split(response)[1].split(answer)
        return before, after

    def question_start(self, action: Sequence[int]) -> int | None:
        """Index of the first question token of an action (Appendix B.4), or None.

        The tokens after the first `Question:` marker of the visible part, found on the ids: the
        first index before which the decoded text holds the whole marker. A token that the marker
        shares with its neighbour counts as marker.
        """
        ids = list(action)

        def holds(length: int) -> bool:
            return QUESTION_MARKER in visible(self.decode(ids[:length]))

        if not holds(len(ids)):
            return None
        # Before the thinking has ended, other text is visible than after it.
        return bisect_left(range(len(ids) + 1), True, lo=self.thinking_stop(ids), key=holds)

    def thinking_stop(self, action: Sequence[int]) -> int:
        """Number of leading tokens of an action that are thinking, the closing tag included."""
        ids = list(action)

        def closed(length: int) -> int:
            text = self.tokenizer.decode(ids[:length], skip_special_tokens=False)
            return text.count(THINK_CLOSE)

        return bisect_left(range(len(ids) + 1), closed(len(ids)), key=closed)
