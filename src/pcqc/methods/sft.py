"""Shared SFT, where every other method starts: it is evaluated as it is, without RL."""

from typing import ClassVar

from pcqc_base.settings import Method


class Sft(Method):
    """See the module."""

    kind: ClassVar[str] = "sft"
