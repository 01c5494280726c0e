"""Dialogue turns as token ids, and which tokens of an action are its thinking."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pcqc.cases.chat_template import ChatTemplate
from pcqc.cases.prompts import (
    THINK_CLOSE,
    THINK_OPEN,
    THINKING,
    actor_prompt,
    parse_action,
    patient_prompt,
    visible,
)
from pcqc.cases.public_case import PublicCase
from pcqc.cases.text_encoder import TextEncoder
from pcqc_base.errors import UserError


class ChatFormat:
    """Dialogue turns as token ids, under one tokenizer's own chat template.

    A consultation only appends: the opening prompt, then in each turn the actor's sampled tokens
    and the template's tokens around the patient's answer. Rendering the template around a stand-in
    response gives those, so nothing sampled is decoded and tokenised again.

    Args:
        tokenizer: one of transformers.
        instruction: the actor's system message.
        ends: tokens that end a response of this model, beside the one that the template writes.

    Attributes:
        end_of_turn: the token that the template writes after a response.
        ends: all tokens at which sampling stops, that one first.

    Raises:
        UserError: no consultation fits into the template (docs/templates.md).
    """

    def __init__(self, tokenizer: Any, instruction: str, ends: Sequence[int] = ()):
        self.template = ChatTemplate(tokenizer)
        self.tokenizer = tokenizer
        # A response is decoded about ten times. The backend takes a fifth of the tokenizer's time,
        # but it cannot clean up spaces: a tokenizer that cleans them up decodes by itself.
        backend = getattr(tokenizer, "backend_tokenizer", None)
        raw = backend is not None and not tokenizer.clean_up_tokenization_spaces
        self._text = backend.decode if raw else tokenizer.decode
        self.encoder = TextEncoder(tokenizer)
        self.instruction = instruction
        self.end_of_turn = self._end_of_turn()
        self.ends = (self.end_of_turn, *(end for end in ends if end != self.end_of_turn))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with none added; see `TextEncoder`."""
        return self.encoder.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, thinking tags kept and the token that ended it dropped."""
        ids = list(ids)
        if ids and ids[-1] in self.ends:
            ids = ids[:-1]
        return self._text(ids, skip_special_tokens=False)

    def response(self, ids: Sequence[int]) -> str:
        """The text of a response of the actor, with the tag of a thought that its prompt opened."""
        return self.template.thought + self.decode(ids)

    def reply(self, ids: Sequence[int]) -> str:
        """The text of a reply with thinking off, without a thought that the model had all the same.

        Where the prompt has closed the thought, tags are text as any.
        """
        text = self.decode(ids).strip()
        thinks = text.startswith(THINK_OPEN) and not self.template.rules_out
        return visible(text).strip() if thinks else text

    def quoted(self, messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
        """The messages with every marker in their text broken; see `TextEncoder.quote`."""
        return [{**m, "content": self._quote(m["content"], m["role"])} for m in messages]

    def _quote(self, text: str, role: str) -> str:
        """Only an assistant thinks: in its responses the thinking tags stay markers."""
        return self.encoder.quote(text, keep=THINKING if role == "assistant" else ())

    def render(self, messages: Sequence[dict[str, str]], thinking: bool = True) -> str:
        """Messages in the model's own template, up to where the assistant writes; for `encode`."""
        return self.template.render(self.quoted(messages), thinking)

    def open(self, case: PublicCase) -> list[int]:
        """The actor's prompt before its first turn."""
        messages = [
            {"role": "system", "content": self.instruction},
            {"role": "user", "content": actor_prompt(case)},
        ]
        return self.encode(self.render(messages))

    def patient(self, facts: Sequence[str], question: str) -> list[int]:
        """The patient's prompt; thinking is disabled (app:protocols)."""
        return self.ask(patient_prompt(facts, question))

    def ask(self, text: str) -> list[int]:
        """The prompt of a single message, thinking disabled."""
        return self.encode(self.render([{"role": "user", "content": text}], thinking=False))

    def after_action(self, action: Sequence[int], answer: str) -> list[int]:
        """Tokens between two actions: the first one's end, the answer, the second's opening."""
        before, after = self.template.before_answer, self.template.after_answer
        ids = self.encode(before + self._quote(answer, "user") + after)
        ended = bool(action) and action[-1] == self.end_of_turn
        return ids[1:] if ended else ids

    def turns(
        self, messages: Sequence[dict[str, str]], earlier_thinking: str
    ) -> list[tuple[list[int], list[int]]]:
        """(state, response) token ids of each assistant turn of a recorded conversation.

        They are built turn by turn like a consultation, so SFT trains on the states that RL sees.
        """
        state = self.encode(self.render(messages[:2]))
        turns = []
        for position in range(2, len(messages), 2):
            text = self._quote(self._recorded(messages[position]["content"]), "assistant")
            response = [*self.encode(text), self.end_of_turn]
            turns.append((state, response))
            if position + 1 < len(messages):
                answer = messages[position + 1]["content"]
                state = self.continue_state(state, response, answer, earlier_thinking)
        return turns

    def _recorded(self, text: str) -> str:
        """A recorded response as the model writes it where the prompt has opened its thought."""
        if not self.template.thought:
            return text
        own = text.removeprefix(THINK_OPEN)
        return self.template.no_thought + text if own == text else own.lstrip("\n")

    def answers(
        self, messages: Sequence[dict[str, str]], facts: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """(prompt, answer) token ids of each question, for a patient with these facts.

        What follows an action without a question, such as a reminder, is not the patient's.
        """
        pairs = []
        for asked, answered in zip(messages[2::2], messages[3::2], strict=False):
            if question := parse_action(asked["content"], ()).question:
                answer = [*self.encode(self._quote(answered["content"], "user")), self.end_of_turn]
                pairs.append((self.patient(facts, question), answer))
        return pairs

    def continue_state(
        self, state: Sequence[int], action: Sequence[int], answer: str, earlier_thinking: str
    ) -> list[int]:
        """The next dialogue state: the state, the action, and the answer to it.

        `earlier_thinking: drop` leaves out the action's thinking and the blank lines after it, as
        Qwen3's template does. That policy acts here alone.
        """
        if earlier_thinking == "drop" and (start := self._visible_start(action)):
            state, action = state[: len(state) - self._opened], action[start:]
        return [*state, *action, *self.after_action(action, answer)]

    def _visible_start(self, action: Sequence[int]) -> int:
        """Index of the first token after the thinking and its line breaks."""
        start = self.thinking_stop(action)
        while 0 < start < len(action) and not self.tokenizer.decode([action[start]]).strip("\n"):
            start += 1
        return start

    @cached_property
    def _opened(self) -> int:
        """Number of tokens at the end of every state that open a thought."""
        closed = self.template.after_answer.removesuffix(self.template.thought)
        return self.ending - len(self.encode(closed))

    def _end_of_turn(self) -> int:
        """The token that the template writes after a response; UserError if it may stand in one."""
        before = self.template.before_answer
        first = next(iter(self.encode(before)), None)
        if first is None or not self.encoder.special(first):
            raise UserError(
                f"the tokenizer {self.tokenizer.name_or_path}: its chat template ends a response "
                f"with {before[:20]!r}, which begins with no special token, so that sampling could "
                "not stop there; use another model, or change its chat template"
            )
        return first

    @cached_property
    def ending(self) -> int:
        """Number of tokens at the end of every state: the turn's end and the actor's opening."""
        return len(self.encode(self.template.after_answer))

    def thinking_stop(self, action: Sequence[int]) -> int:
        """Number of leading tokens that are thinking, the closing tag included."""
        ids = list(action)

        def closed(length: int) -> int:
            text = self._text(ids[:length], skip_special_tokens=False)
            return text.count(THINK_CLOSE)

        return bisect_left(range(len(ids) + 1), closed(len(ids)), key=closed)
