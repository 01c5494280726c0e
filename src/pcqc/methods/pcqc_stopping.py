"""PCQC with credit of the decision to ask or to conclude (stopping.md, beside this).

Samples: as PCQC.
Credits: as PCQC; and the decision of each candidate by its utility, compared with the others' at
the same state. A final answer adds no evidence, so its utility is b(O_t), what the scorer makes of
the dialogue as it is.
Trains on: PCQC's tokens and, weighed by `stopping_weight`, the marker of every candidate,
`Question:` or `Final Answer:`.
"""

from collections.abc import Sequence
from typing import Any

from pydantic.dataclasses import dataclass as settings

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER
from pcqc.consultation import Response, RolloutContext
from pcqc.consultation.question_mask import marker_stop
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import Firsts, Judged, QuestionGroup
from pcqc.methods.sequences import Spans
from pcqc.settings.yaml_reader import STRICT, Weight

DECISION = "decision"  # term of the loss


@settings(frozen=True, config=STRICT)
class PcqcStopping(Pcqc):
    """See the module."""

    stopping_weight: Weight = 1.0  # weight of the decisions' loss, beside `beta`

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss."""
        return {**super().coefficients, DECISION: self.stopping_weight}

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """See `Pcqc.judge`; finds the decision in each candidate too."""
        judged = super().judge(services, context, firsts, stage)
        for group in (group for groups in judged.groups for group in groups):
            group.spans = [_decision(context.chat, r) for r in group.turn.responses]
        return judged

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """See `Pcqc.credit`; a decision gets the credit of its candidate."""
        super().credit(groups)
        for group in groups:
            group.spans = [
                {name: (first, stop, float(credit)) for name, (first, stop, _) in spans.items()}
                for spans, credit in zip(group.spans, group.credits, strict=True)
            ]

    @property
    def words(self) -> str:
        """See `Method.words`."""
        return (
            f"{super().words}; the decision to ask or to conclude is credited as a question is "
            f"(weight {self.stopping_weight:g})"
        )

    def why(self, group: dict[str, Any], candidate: dict[str, Any]) -> str:
        """See `Pcqc.why`; a final answer has credit too, of its marker."""
        trained = self.supervise == "all" or candidate["executed"]
        text = super().why(group, {**candidate, "supervised": trained})
        decision = " The decision to ask or to conclude gets the same credit."
        return f"{text}{decision if trained else ''}"


def _decision(chat: ChatFormat, response: Response) -> Spans:
    """The marker of a response's action, not credited yet; none of a response without action."""
    markers = {"question": QUESTION_MARKER, "final": ANSWER_MARKER}
    tokens = response.completion.tokens
    if not (marker := markers.get(response.action.kind)):
        return {}
    stop = marker_stop(chat, tokens, marker)
    return {} if stop is None else {DECISION: (chat.thinking_stop(tokens), stop, 0.0)}
