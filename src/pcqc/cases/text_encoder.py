"""Text to token ids, where a tokenizer's markers count only if the chat template wrote them.

Cases, answers and recorded turns are text from outside. Were a `<|im_start|>` in them read as the
template's own, a patient could speak as the doctor.
"""

import json
import re
from collections.abc import Collection
from functools import cached_property
from typing import Any

from pcqc_base.errors import UserError

# Breaks a marker in text from outside. A lone surrogate is in no text that can be encoded.
BREAK = "\ud800"
# Begins the name that stands in for a marker; no character of any language.
STAND_IN = "\ufdd0"


class TextEncoder:
    """Token ids of text under one tokenizer, with none added at its ends.

    Args:
        tokenizer: a fast tokenizer of transformers. Its markers are its special tokens, and its
            other added tokens that look like them, such as `<think>`.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        if tokenizer.is_fast:
            # A published tokenizer may come with a limit; texts are checked elsewhere, never cut.
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        self._markers = {
            added.content: number
            for number, added in tokenizer.added_tokens_decoder.items()
            if added.special or re.fullmatch(r"[<\[].+[>\]]", added.content)
        }
        # What text cannot be: the token for unknown characters may be among the special ones.
        self._reserved = set(self._markers.values()) - {tokenizer.unk_token_id}

    def quote(self, text: str, keep: Collection[str] = ()) -> str:
        """Text from outside, its markers broken so that `encode` reads them as plain letters.

        Args:
            text: as it came.
            keep: markers that stay markers.
        """
        markers = [marker for marker in self._markers if marker not in keep]
        if not any(marker in text for marker in markers):
            return text
        # Markers may overlap, so each place where one starts is broken.
        return re.sub(f"(?=(?:{_any_of(markers)}))(.)", rf"\1{BREAK}", text, flags=re.DOTALL)

    def special(self, token: int) -> bool:
        """Whether the tokenizer marks a token as special: no text of a response has it."""
        added = self.tokenizer.added_tokens_decoder.get(token)
        return token in self.tokenizer.all_special_ids or bool(added and added.special)

    def encode(self, text: str) -> list[int]:
        """Token ids; markers that are not quoted become their own tokens.

        Raises:
            UserError: this tokenizer cannot tell a quoted marker from the template's own.
        """
        if BREAK not in text:
            return self._plain(text)
        if STAND_IN in text:
            raise UserError(f"a text holds both a marker and {STAND_IN!r}; remove that character")
        renamed, names, own = self._renamed
        text = re.sub(_any_of(names), lambda found: names[found[0]], text).replace(BREAK, "")
        ids = renamed.encode(text, add_special_tokens=False).ids
        if any(i in self._reserved and i not in own for i in ids):
            raise self._unusable("reads a marker even where it is plain text")
        return [own.get(i, i) for i in ids]

    def _plain(self, text: str) -> list[int]:
        if not self.tokenizer.is_fast:
            return self.tokenizer.encode(text, add_special_tokens=False)
        # The wrapper's bookkeeping takes longer than the encoding of a short text.
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def _renamed(self) -> tuple[Any, dict[str, str], dict[int, int]]:
        """The tokenizer with other names for its markers, to which these are letters like any.

        It does with the new names what it did with the markers, such as strip blanks beside them.

        Returns:
            The tokenizer; marker -> its new name; number of an added token there -> its own number.
        """
        if not self.tokenizer.is_fast:
            raise self._unusable("has no fast form, which tells markers from text like them")
        from tokenizers import Tokenizer

        state = json.loads(self.tokenizer.backend_tokenizer.to_str())
        names = {marker: f"{STAND_IN}{n}{STAND_IN}" for n, marker in enumerate(self._markers)}
        added = state["added_tokens"]
        state["added_tokens"] = [
            token | {"content": names.get(token["content"], token["content"])} for token in added
        ]
        renamed = Tokenizer.from_str(json.dumps(state))
        numbers = {renamed.token_to_id(t["content"]): t["id"] for t in state["added_tokens"]}
        return renamed, names, numbers

    def _unusable(self, what: str) -> UserError:
        return UserError(f"the tokenizer {self.tokenizer.name_or_path} {what}; use another model")


def _any_of(markers: Collection[str]) -> str:
    """A pattern for the longest of the markers at a place."""
    return "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
