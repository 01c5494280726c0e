"""Dialogue turns as token ids, and which tokens of an action are its thinking."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pcqc.cases.prompts import (
    THINK_CLOSE,
    THINKING,
    actor_prompt,
    parse_action,
    patient_prompt,
)
from pcqc.cases.public_case import PublicCase
from pcqc.cases.text_encoder import TextEncoder
from pcqc.errors import UserError


class ChatFormat:
    """Dialogue turns as token ids, under one tokenizer's own chat template.

    A consultation only appends: the opening prompt, then in each turn the actor's sampled tokens
    and the template's tokens around the patient's answer. Rendering the template around a stand-in
    response gives those, so nothing sampled is decoded and tokenised again.
    """

    def __init__(self, tokenizer: Any, instruction: str):
        if tokenizer.chat_template is None:
            raise UserError(
                f"the tokenizer {tokenizer.name_or_path} has no chat template; add one to it"
            )
        self.tokenizer = tokenizer
        # A response is decoded about ten times. The backend takes a fifth of the tokenizer's time,
        # but it cannot clean up spaces: a tokenizer that cleans them up decodes by itself.
        backend = getattr(tokenizer, "backend_tokenizer", None)
        raw = backend is not None and not tokenizer.clean_up_tokenization_spaces
        self._text = backend.decode if raw else tokenizer.decode
        self.encoder = TextEncoder(tokenizer)
        self.instruction = instruction

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with none added; see `TextEncoder`."""
        return self.encoder.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, thinking tags kept and the end-of-turn token dropped."""
        ids = list(ids)
        if ids and ids[-1] == self.end_of_turn:
            ids = ids[:-1]
        return self._text(ids, skip_special_tokens=False)

    def quoted(self, messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
        """The messages with every marker in their text broken; see `TextEncoder.quote`."""
        return [{**m, "content": self._quote(m["content"], m["role"])} for m in messages]

    def _quote(self, text: str, role: str) -> str:
        """Only an assistant thinks: in its responses the thinking tags stay markers."""
        return self.encoder.quote(text, keep=THINKING if role == "assistant" else ())

    def render(self, messages: Sequence[dict[str, str]], thinking: bool = True) -> str:
        """Messages in the model's own template, up to where the assistant writes; for `encode`."""
        return self.tokenizer.apply_chat_template(
            self.quoted(messages),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=thinking,
        )

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
        before, after = self._glue
        ids = self.encode(before + self._quote(answer, "user") + after)
        ended = bool(action) and action[-1] == self.end_of_turn
        return ids[1:] if ended else ids

    def turns(
        self, messages: Sequence[dict[str, str]], earlier_thinking: str
    ) -> list[tuple[list[int], list[int]]]:
        """(state, response) token ids of each assistant turn of a recorded conversation.

        They are built turn by turn like a consultation, so SFT trains on the states that RL and
        evaluation see.
        """
        state = self.encode(self.render(messages[:2]))
        turns = []
        for position in range(2, len(messages), 2):
            text = self._quote(messages[position]["content"], "assistant")
            response = [*self.encode(text), self.end_of_turn]
            turns.append((state, response))
            if position + 1 < len(messages):
                answer = messages[position + 1]["content"]
                state = self.continue_state(state, response, answer, earlier_thinking)
        return turns

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
        kept = action if earlier_thinking == "keep" else action[self._visible_start(action) :]
        return [*state, *kept, *self.after_action(action, answer)]

    def _visible_start(self, action: Sequence[int]) -> int:
        """Index of the first token after the thinking and its line breaks."""
        start = self.thinking_stop(action)
        while 0 < start < len(action) and not self.tokenizer.decode([action[start]]).strip("\n"):
            start += 1
        return start

    @cached_property
    def end_of_turn(self) -> int:
        """The token that ends an actor's turn; sampling stops at it."""
        return self.encode(self._glue[0])[0]

    @cached_property
    def ending(self) -> int:
        """Number of tokens at the end of every state: the turn's end and the actor's opening."""
        return len(self.encode(self._glue[1]))

    @cached_property
    def _glue(self) -> tuple[str, str]:
        """The template's text between a response and an answer, and after the answer."""
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

    def thinking_stop(self, action: Sequence[int]) -> int:
        """Number of leading tokens that are thinking, the closing tag included."""
        ids = list(action)

        def closed(length: int) -> int:
            text = self._text(ids[:length], skip_special_tokens=False)
            return text.count(THINK_CLOSE)

        return bisect_left(range(len(ids) + 1), closed(len(ids)), key=closed)
