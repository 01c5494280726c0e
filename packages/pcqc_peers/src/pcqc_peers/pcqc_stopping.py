"""PCQC with credit of the decision to ask or to conclude (stopping.md, beside this).

Samples: as PCQC; with `compare_last`, candidates at the last turn too.
Credits: as PCQC; and the decision of each candidate by its utility, compared with the others' at
the same state. A final answer adds no evidence, so its utility is b(O_t), what the scorer makes of
the dialogue as it is. At the last turn a question ends the consultation without a diagnosis: its
utility is 0.
Trains on: PCQC's tokens and, weighed by `stopping_weight`, the marker of every candidate,
`Question:` or `Final Answer:`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic.dataclasses import dataclass as settings

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import ANSWER_MARKER, QUESTION_MARKER
from pcqc.consultation import Dialogue, Response, RolloutContext, sample_responses
from pcqc.consultation.question_mask import marker_stop
from pcqc.engines.base import Failure
from pcqc.methods.base import Services
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.question_groups import Firsts, Judged, QuestionGroup
from pcqc.methods.sequences import Spans
from pcqc_base.settings.types import STRICT, Weight

DECISION = "decision"  # term of the loss


@settings(frozen=True, config=STRICT)
class PcqcStopping(Pcqc):
    """PCQC's settings and updates, with credit of the decision to ask or to conclude."""

    stopping_weight: Weight = 1.0  # weight of the decisions' loss, beside `beta`
    compare_last: bool = False  # whether decisions are compared at the last turn too

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight of each term of the loss."""
        return {**super().coefficients, DECISION: self.stopping_weight}

    def judge(
        self, services: Services, context: RolloutContext, firsts: Firsts, stage: str
    ) -> Judged:
        """Candidates with the scorer's utilities, and where each has its decision."""
        judged = super().judge(services, context, firsts, stage)
        if self.compare_last:
            judged = self._add_last(services, context, firsts, stage, judged)
        for group in (group for groups in judged.groups for group in groups):
            group.spans = [_decision(context.chat, r) for r in group.turn.responses]
        return judged

    def _add_last(
        self,
        services: Services,
        context: RolloutContext,
        firsts: Firsts,
        stage: str,
        judged: Judged,
    ) -> Judged:
        """A group more for each consultation that reached the last turn; see the module."""
        last = context.protocol.max_turns - 1
        places = [i for i, (_, first) in enumerate(firsts) if len(first.turns) > last]
        dialogues = [
            Dialogue.before(case, first, last, str(first.rollout))
            for case, first in (firsts[i] for i in places)
        ]
        widths = [self.question_group] * len(places)  # the first draw is the executed one again
        sampled = sample_responses(context, dialogues, widths, f"{services.seed}/{stage}")
        evidence = [(d.case.public, d.consultation.exchanges) for d in dialogues]
        assert services.scorer is not None
        with context.timed("scorer"):
            beliefs = services.scorer.probabilities(evidence)
        for i, (_, *others), belief in zip(places, sampled, beliefs, strict=True):
            case, turn = firsts[i][0], firsts[i][1].turns[last]
            if isinstance(belief, Failure):
                continue
            right = float(belief[case.public.labels.index(case.answer)])
            # Nobody answers these questions, so only the decision to ask is credited.
            responses = tuple(replace(r, question_start=None) for r in (turn.executed, *others))
            actions = [response.action for response in responses]
            utilities = np.array([right * (a.kind == "final" and a.valid) for a in actions])
            compared = replace(turn, responses=responses)
            judged.groups[i].append(QuestionGroup(case, last, compared, right, utilities))
        tokens = sum(len(r.completion.tokens) for _, *others in sampled for r in others)
        return replace(judged, sampled_tokens=judged.sampled_tokens + tokens)

    def credit(self, groups: Sequence[QuestionGroup]) -> None:
        """Credit candidates in place; a decision gets the credit of its candidate."""
        super().credit(groups)
        for group in groups:
            group.credit_spans(group.credits)


def _decision(chat: ChatFormat, response: Response) -> Spans:
    """The marker of a response's action, not credited yet; none of a response without action."""
    markers = {"question": QUESTION_MARKER, "final": ANSWER_MARKER}
    tokens = response.completion.tokens
    if not (marker := markers.get(response.action.kind)):
        return {}
    stop = marker_stop(chat, tokens, marker)
    return {} if stop is None else {DECISION: (chat.thinking_stop(tokens), stop, 0.0)}
