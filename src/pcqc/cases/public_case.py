"""The part of a case that the actor may see.

It is what the paper grants the actor and the scorer (tab:pipeline_visibility): the initial
information, the clinical question and its options. No path leads from it to facts or answer.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublicCase:
    """What a doctor is told before the first question; see `pcqc.cases.case.Case`."""

    case_id: str
    initial: str
    question: str
    options: dict[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the options, in the order in which they are shown."""
        return tuple(self.options)
