"""The continuation study (sec:results:credit_validity): does a question's utility predict success?

Candidates are drawn, answered and scored at each case's initial state and stay fixed; then each of
them is continued several times. Where one of them asks no question, the next case is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from pcqc.cases.case import Case
from pcqc.consultation import (
    RolloutContext,
    open_with_question,
    play_on,
    require_answers,
    roll_out,
)
from pcqc.methods.question_groups import score_groups
from pcqc.roles import Scorer
from pcqc_base.errors import UserError
from turn_credit.arithmetic import same_state_credit

STAGE = "continuation"


@dataclass(frozen=True)
class Candidate:
    """A candidate question, fixed before anything continues from it.

    Attributes:
        candidate: its number; 0 is q_1, the executed question.
        tokens: the actor's response.
        utility: u_i, the scorer's probability of the correct option after the answer.
        baseline: b(O_t), that probability before the question.
        credit: A^Q, what PCQC would have taught the question's tokens (eq:group_credit).
        ungrounded: whether the answer was altered to lack grounds.
    """

    case_id: str
    candidate: int
    tokens: Sequence[int]
    question: str
    answer: str
    utility: float
    baseline: float
    credit: float
    ungrounded: bool = False

    def row(self) -> dict:
        """For `candidates.parquet`, which has no column for the tokens."""
        return {**asdict(self), "executed": self.candidate == 0}


def draw_candidates(
    context: RolloutContext, scorer: Scorer, cases: Sequence[Case], *, candidates: int, seed: int
) -> list[list[Candidate] | None]:
    """Draw, answer and score `candidates` first questions of each case.

    Returns:
        The candidates of each case; None where not all of them ask a question.
    """
    rolled = roll_out(
        context, cases, rollouts=1, candidates=candidates, seed=seed, stage=STAGE, turns=1
    )
    require_answers(consultation for (consultation,) in rolled)
    valid = {
        case.case_id: (case, consultation)
        for case, (consultation,) in zip(cases, rolled, strict=True)
        if consultation.turns and consultation.turns[0].all_ask(candidates)
    }
    groups = score_groups(scorer, list(valid.values()))
    if not all(groups):
        raise UserError("the scorer's server failed; check the server and rerun")
    by_case = {
        case_id: [
            Candidate(
                case_id,
                number,
                response.completion.tokens,
                response.action.question,
                response.answer,
                float(group.utilities[number]),
                group.baseline,
                float(credit),
            )
            for number, (response, credit) in enumerate(
                zip(group.turn.responses, same_state_credit(group.gains), strict=True)
            )
        ]
        for case_id, (group,) in zip(valid, groups, strict=True)
    }
    return [by_case.get(case.case_id) for case in cases]


def draw_continuations(
    context: RolloutContext,
    cases: Sequence[Case],
    candidates: Sequence[Sequence[Candidate]],
    *,
    continuations: int,
    seed: int,
) -> Iterator[dict]:
    """Continue every candidate of every case, independently of each other.

    Args:
        cases: one for each group of candidates.
        candidates: as drawn.

    Yields:
        Rows of `continuations.parquet`; `turns` counts the candidate's own question too.
    """
    draws = [
        (case, candidate, number)
        for case, of_case in zip(cases, candidates, strict=True)
        for candidate in of_case
        for number in range(continuations)
    ]
    # Rollouts are numbered through a case, so that no two continuations share a random stream.
    dialogues = [
        open_with_question(context, case, c.candidate * continuations + number, c.tokens, c.answer)
        for case, c, number in draws
    ]
    played = play_on(context, dialogues, seed=seed, stage=STAGE)
    require_answers(played)
    for (case, candidate, number), consultation in zip(draws, played, strict=True):
        yield {
            "case_id": case.case_id,
            "candidate": candidate.candidate,
            "continuation": number,
            "correct": consultation.is_correct(case),
            "turns": consultation.inquiry_turns,
            "ending": consultation.ending,
        }
