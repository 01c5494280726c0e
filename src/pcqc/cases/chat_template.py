"""What a model's own chat template writes around turns, and whether a consultation fits into it."""

from collections.abc import Sequence
from typing import Any

from pcqc.cases.prompts import THINK_CLOSE, THINK_OPEN
from pcqc_base.errors import UserError, one_line, reason

SYSTEM, USER, RESPONSE, ANSWER = (f"\u2402{n}\u2403" for n in ("system", "user", "said", "told"))
TURNS = (("system", SYSTEM), ("user", USER), ("assistant", RESPONSE), ("user", ANSWER))
REMEDY = "use another model, or change its chat template"


class ChatTemplate:
    """The chat template of a tokenizer, tried on stand-ins for the turns of a consultation.

    Args:
        tokenizer: one of transformers, with a chat template.

    Attributes:
        before_answer, after_answer: its text from a response to the answer, and on to the next.
        thought: what it writes at the end of a prompt to open a thought; empty where it does not.
        no_thought: what closes that thought at once.
        rules_out: whether it closes a thought itself at the end of a prompt where thinking is off.

    Raises:
        UserError: it refuses the turns, does not write each once and in order, tells the time, or
            opens a thought where thinking is off.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        if tokenizer.chat_template is None:
            raise self._unusable("has no chat template")
        alone = self._turns([("user", USER)], thinking=False).partition(USER)[2]
        if _open_thought(alone):
            raise self._unusable("its chat template opens a thought even where thinking is off")
        self.before_answer, self.after_answer = self._around_answer()
        self.thought = _open_thought(self.after_answer)
        self.rules_out = THINK_CLOSE in alone
        closed = alone.rpartition(THINK_OPEN)[2] if self.rules_out else f"{THINK_CLOSE}\n\n"
        blank = self.thought.removeprefix(THINK_OPEN)
        self.no_thought = closed.removeprefix(blank) if self.thought else ""

    def render(self, messages: Sequence[dict[str, str]], thinking: bool = True, **more) -> str:
        """Messages up to where the assistant writes; `more` are further names for the template."""
        try:
            return self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=thinking,
                **more,
            )
        except Exception as problem:  # a template is a program: it may fail in any way
            roles = ", ".join(message["role"] for message in messages)
            why = one_line(reason(problem))
            raise self._unusable(
                f"its chat template refuses the turns {roles} ({why})"
            ) from problem

    def _around_answer(self) -> list[str]:
        """What it writes from a response to the answer, and after the answer."""
        rendered = self._turns(TURNS)
        for role, text in TURNS:
            if rendered.count(text) != 1:
                raise self._unusable(f"its chat template does not print each turn once ({role})")
        opening, rest = rendered.split(RESPONSE)
        if SYSTEM not in opening or USER not in opening:
            raise self._unusable(
                "its chat template writes the system message into a later turn than the first, so "
                "that it would stand again before every answer"
            )
        return rest.split(ANSWER)

    def _turns(self, turns: Sequence[tuple[str, str]], **options) -> str:
        """The turns as written, at whatever time."""
        messages = [{"role": role, "content": text} for role, text in turns]
        rendered = self.render(messages, **options)
        # The library's clock, stopped at two different times.
        for time in ("1", "2"):
            if self.render(messages, **options, strftime_now=lambda form, t=time: t) != rendered:
                raise self._unusable(
                    "its chat template writes the time, so that prompts change from day to day",
                    "put a fixed date into its chat template, or use another model",
                )
        return rendered

    def _unusable(self, what: str, remedy: str = REMEDY) -> UserError:
        return UserError(f"the tokenizer {self.tokenizer.name_or_path}: {what}; {remedy}")


def _open_thought(text: str) -> str:
    """The text from the last tag that opens a thought, where none closes it; else empty."""
    return text[start:] if (start := text.rfind(THINK_OPEN)) > text.rfind(THINK_CLOSE) else ""
