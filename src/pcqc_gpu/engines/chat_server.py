"""A frozen role behind any server of OpenAI's chat completions: text there, text back.

Its model takes the place of the role's weights. No tokenizer of it is at hand, so a character
stands for a token: `Text` is tokenizer and chat format of such a role. Of the patient nothing
changes but who answers. What the scorer reads is the same too (`scorer_prompt`), after a line that
asks for a label alone. An option's probability is read at the answer's first token or, where a
server gives no log-probabilities, counted in answers that it gives to that prompt.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from pcqc.cases.prompts import (
    ANSWER_CUE,
    ANSWER_MARKER,
    THINK_OPEN,
    parse_action,
    patient_prompt,
    visible,
)
from pcqc.engines.base import Completion, Failure, Request, Sampling
from pcqc.seeds import stream
from pcqc_base.errors import UserError
from pcqc_base.settings import Server
from pcqc_gpu.engines.replicas import api_key
from pcqc_gpu.engines.server import Asked, ServerEngine, checked_list, checked_logprob

LABEL_ALONE = "Reply with the label of one option and nothing else.\n\n"
LIKELIEST = 20  # tokens whose log-probabilities are asked for: the most that OpenAI gives
LABEL_TOKENS = 16  # of an answer that is a label: also one in brackets, or followed by its text
SLACK = 1e-3  # of a sum of probabilities, for rounding
LONGEST_TOKEN = 256  # characters; longer tokens are blanks or rules
UNUSED_BITS = 33  # of a stream's 64: every interface takes seeds of 31 bits
SECRET = 16  # characters of a key from which on no answer has it by chance
UNREAD = "unread"  # what is counted of answers that name no option


class Text:
    """Tokenizer and chat format of a role that is text: a token is a character.

    It has what `Patient` and a judge use of `ChatFormat`, and what `Scorer` uses of a tokenizer.
    """

    ends: tuple[int, ...] = ()
    is_fast = False
    unk_token_id = None

    def __init__(self) -> None:
        self.added_tokens_decoder: dict[int, Any] = {}  # no text is a marker

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """The characters' code points."""
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return "".join(map(chr, ids))

    def ask(self, text: str) -> list[int]:
        """The prompt of a single message."""
        return self.encode(text)

    def patient(self, facts: Sequence[str], question: str) -> list[int]:
        """The patient's prompt: facts and one question, nothing of the task or the dialogue."""
        return self.ask(patient_prompt(facts, question))

    def reply(self, ids: Sequence[int]) -> str:
        """The text of a reply, without a thought at its start."""
        text = self.decode(ids).strip()
        return visible(text).strip() if text.startswith(THINK_OPEN) else text


class ChatEngine(ServerEngine):
    """Generates and scores by chat completions; every request may fail on its own.

    Prompts and completions are characters (`Text`). Of what is generated no log-probability is
    known. Seeds are sent; whether a server heeds them is its own affair.

    Args:
        server: addresses, model, time-out and retries.

    Attributes:
        text: tokenizer and chat format of the role.

    Raises:
        UserError: no server answers, or one wants another key.
    """

    path = "/chat/completions"

    def __init__(self, server: Server):
        super().__init__(server)
        self.text = Text()
        self._key = api_key(server)

    def samples(self, request: Request, sampling: Sampling) -> list[Asked]:
        """What is asked for each stream of a request."""
        text = self.text.decode(request.prompt)
        common = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        seeds = [name >> UNUSED_BITS for name in request.streams]
        return [(self._body(text, **common, seed=seed), self._answer) for seed in seeds]

    def choices(self, prompt: Sequence[int], ids: Sequence[int]) -> list[Asked]:
        """What is asked for the probabilities of labels `ids`, which are of one character each.

        Raises:
            UserError: labels of several characters, which no first token tells apart.
        """
        text, labels = self.text.decode(prompt), self.text.decode(ids)
        if not text.endswith(f"{ANSWER_CUE} "):
            raise UserError(
                f"{self.server.url}: a chat completion is read for labels of one character; label "
                "the options A, B, C, ..., or have the scorer's own weights read them"
            )
        text = LABEL_ALONE + text.rstrip()
        read = partial(self._named if self.server.asks else self._logprobs, labels)
        common = {"temperature": 1.0, "top_p": 1.0}
        if not self.server.asks:
            wanted = {"max_tokens": 1, "logprobs": True, "top_logprobs": LIKELIEST}
            return [(self._body(text, **common, **wanted), read)]
        # The same seeds at every prompt: of two that are compared they draw alike.
        seeds = [stream(0, "ask", k) >> UNUSED_BITS for k in range(self.server.asks)]
        common["max_tokens"] = LABEL_TOKENS
        return [(self._body(text, **common, seed=seed), read) for seed in seeds]

    def row(self, results: Sequence[Any], ids: Sequence[int]) -> list[float] | Failure:
        """Log-probabilities of labels: what was read, or the share of answers that name each.

        A share has no bias, and p of n answers has the standard error sqrt(p (1 - p) / n).
        """
        failures = [result for result in results if isinstance(result, Failure)]
        if failures or not self.server.asks:
            return failures[0] if failures else results[0]
        counts = Counter(results)
        self.counts[UNREAD] += counts.pop(None, 0)
        if not counts:
            return Failure("malformed", f"none of {len(results)} answers names an option")
        shares = [counts[self.text.decode([label])] / counts.total() for label in ids]
        return [math.log(share) if share else -math.inf for share in shares]

    def take_faults(self) -> dict[str, int]:
        """Retries, failures and, where labels are asked for, answers without one."""
        unread = {UNREAD: self.counts.pop(UNREAD, 0)} if self.server.asks else {}
        return super().take_faults() | unread

    def _body(self, text: str, **fields: Any) -> dict:
        """What is sent for a prompt; the study's own fields take the place of ours."""
        body = {"messages": [{"role": "user", "content": text}], **fields, **self.server.body}
        return {name: value for name, value in body.items() if value is not None}

    def _answer(self, reply: dict, body: dict) -> Completion:
        """The completion in a reply; ValueError saying what no patient can have said."""
        content, most = self._content(reply), body.get("max_tokens")
        if not content.strip():
            raise ValueError(f"an empty answer, after {_choice(reply).get('finish_reason')!r}")
        if isinstance(most, int) and len(content) > LONGEST_TOKEN * most:
            raise ValueError(f"{len(content)} characters in place of {most} tokens")
        return Completion(self.text.encode(content), [])

    def _named(self, labels: str, reply: dict, body: dict) -> str | None:
        """The label that an answer names; None where it names none."""
        answer = f"{ANSWER_MARKER} {visible(self._content(reply)).strip()}"
        action = parse_action(answer, list(labels))
        return action.text if action.valid and action.kind == "final" else None

    def _logprobs(self, labels: str, reply: dict, body: dict) -> list[float]:
        """Log-probability of each label as the first token, blanks around it left out.

        Of a label that is not among the likeliest tokens no more is known than that it is as
        unlikely as the last of these and fits into what they leave: that bound is taken.

        Raises:
            UserError: the server gives no log-probabilities.
        """
        given = _choice(reply).get("logprobs")
        tokens = checked_list(_mapping(given)["content"] if given else [])
        likeliest = checked_list(_mapping(tokens[0]).get("top_logprobs") or []) if tokens else []
        if not likeliest:
            raise UserError(
                f"{self.server.url}: its answer has no log-probabilities of the first token; have "
                "the scorer's server ask in their place ('asks: 64'), and a model that thinks "
                "answer without (docs/own-cases.md)"
            )
        read: dict[str, float] = {}
        for entry in likeliest:
            token, p = _mapping(entry)["token"].strip(), math.exp(checked_logprob(entry["logprob"]))
            read[token] = read.get(token, 0.0) + p
        if not (total := sum(read.values())) <= 1 + SLACK:
            raise ValueError(f"probabilities that sum to {total}")
        if not any(read.get(label) for label in labels):
            raise ValueError(f"no label among the {len(likeliest)} likeliest tokens")
        least = min(math.exp(entry["logprob"]) for entry in likeliest)
        bound = min(least, max(1 - total, 0.0))
        shares = [read.get(label, bound) for label in labels]
        return [math.log(share) if share else -math.inf for share in shares]

    def _content(self, reply: dict) -> str:
        content = _mapping(_choice(reply)["message"])["content"]
        if type(content) is not str:
            raise ValueError(f"{content!r} in place of an answer's text")
        content.encode()  # half of a surrogate pair is no text: a ValueError
        if len(self._key) >= SECRET and self._key in content:
            raise ValueError("an answer that repeats the API key")
        return content


def _choice(reply: dict) -> dict:
    return _mapping(reply["choices"][0])


def _mapping(value: Any) -> dict:
    if type(value) is not dict:
        raise ValueError(f"{value!r} in place of an object")
    return value
