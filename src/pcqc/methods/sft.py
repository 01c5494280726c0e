"""Shared SFT, where every other method starts: it is evaluated as it is, without RL."""

from typing import ClassVar

from pcqc.settings import Method


class Sft(Method):
    """See the module."""

    kind: ClassVar[str] = "sft"

    @property
    def words(self) -> str:
        """See `Method.words`."""
        return "supervised fine-tuning, the start of every other method"
