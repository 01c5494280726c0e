"""Text to token ids, where a tokenizer's markers count only if the chat template wrote them.

Cases, answers and recorded turns are text from outside. Were a `<|im_start|>` in them read as the
template's own, a patient could speak as the doctor.
"""

import json
import re
from collections.abc import Collection
from functools import cached_property
from typing import Any

from pcqc.errors import UserError

# Breaks a marker in text from outside. A lone surrogate is in no text that can be encoded.
BREAK = "\ud800"


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

    def encode(self, text: str) -> list[int]:
        """Token ids; markers that are not quoted become their own tokens."""
        if BREAK not in text:
            return self._plain(text)
        ids = []
        for piece in re.split(f"({_any_of(self._markers)})", text):
            if piece in self._markers:
                ids.append(self._markers[piece])
            else:
                plain = piece.replace(BREAK, "")
                ids += self._without_markers.encode(plain, add_special_tokens=False).ids
        return ids

    def _plain(self, text: str) -> list[int]:
        if not self.tokenizer.is_fast:
            return self.tokenizer.encode(text, add_special_tokens=False)
        # The wrapper's bookkeeping takes longer than the encoding of a short text.
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def _without_markers(self):
        """The same tokenizer, to which markers are letters like any others."""
        if not self.tokenizer.is_fast:
            raise UserError(
                f"the tokenizer {self.tokenizer.name_or_path} has no fast form, so that a marker "
                "in a case's text cannot be told from the chat template's; use another model"
            )
        from tokenizers import Tokenizer

        state = json.loads(self.tokenizer.backend_tokenizer.to_str())
        added = state["added_tokens"]
        state["added_tokens"] = [token for token in added if token["content"] not in self._markers]
        return Tokenizer.from_str(json.dumps(state))


def _any_of(markers: Collection[str]) -> str:
    """A pattern for the longest of the markers at a place."""
    return "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
