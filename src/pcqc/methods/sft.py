"""Shared SFT, where every other method starts: it is evaluated as it is, without RL."""

from typing import ClassVar

from pcqc_base.settings import Method


class Sft(Method):
    """Shared SFT's settings."""

    kind: ClassVar[str] = "sft"
