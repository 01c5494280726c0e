"""Types of single settings, and how strictly groups of them are read."""

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

T = TypeVar("T")

# Of every group of settings: no value of another type, no unknown name, no infinity.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def matching(pattern: str, words: str) -> AfterValidator:
    """An annotation: the whole string matches; `words` finish the sentence "must be ..."."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {words}")
        return text

    return AfterValidator(check)


Count = Annotated[int, Field(ge=1, le=10**9)]
Whole = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Some = Annotated[tuple[T, ...], Field(min_length=1)]
# A name stands in names of files, in patterns of the workflow and in queries.
Name = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "made of letters, digits, '_' and '-'")
]
_TITLE = r"(?!\s)[^\x00-\x1f\x7f-\x9f\u2028\u2029]+(?<!\s)"
Title = Annotated[str, matching(_TITLE, "one line of text, not empty")]
