"""`pcqc doctor --cases`: consultations before any training, with all that each role reads."""

from collections.abc import Iterator, Sequence

from pcqc.cases.case import Case
from pcqc.cases.prompts import scorer_prompt
from pcqc.consultation import Consultation, RolloutContext, roll_out
from pcqc.engines.base import Failure
from pcqc.roles import Patient, Scorer
from pcqc.roles.patient import Inquiry
from pcqc_base.errors import UserError

# Asked where the doctor asks nothing, as one may that was not taught yet.
IN_ITS_PLACE = "Is there anything else that I should know?"


def rehearse(context: RolloutContext, scorer: Scorer | None, cases: Sequence[Case]) -> str:
    """One consultation on each case: prompts and replies of doctor, patient and scorer.

    Args:
        context: doctor and patient.
        scorer: reads the evidence before the first question and after each answer; None: nobody.
        cases: their facts go to the patient alone.

    Raises:
        UserError: a server fails.
    """
    played = roll_out(context, cases, rollouts=1, seed=0, stage="rehearsal")
    lines = []
    for case, (consultation,) in zip(cases, played, strict=True):
        lines += ["", f"=== {case.case_id}", *_turns(context, case, consultation)]
        if not consultation.exchanges:
            inquiry = Inquiry(case.facts, IN_ITS_PLACE, 0)
            (answer,) = context.patient.answer([inquiry])
            lines += ["--- the doctor asked nothing; a question in its place"]
            lines += _patient(context.patient, inquiry, answer)
        if scorer:
            lines += _scores(scorer, case, consultation)
        lines += [f"--- the end: {consultation.ending}; the correct option is {case.answer}"]
    return "\n".join(lines)


def _turns(context: RolloutContext, case: Case, consultation: Consultation) -> Iterator[str]:
    """What doctor and patient read and said; of a later state what came to the one before."""
    read = 0
    for turn in consultation.turns:
        yield f"--- the doctor reads{', further on' if read else ''}"
        yield context.chat.decode(turn.state[read:])
        read = len(turn.state)
        response = turn.executed
        yield f"--- the doctor says\n{response.text}"
        if answer := response.failure or response.answer:
            inquiry = Inquiry(case.facts, response.action.question, 0)
            yield from _patient(context.patient, inquiry, answer)


def _patient(patient: Patient, inquiry: Inquiry, answer: str | Failure) -> Iterator[str]:
    if isinstance(answer, Failure):
        raise UserError(f"the patient's server failed ({answer}); check the server")
    yield f"--- the patient reads\n{patient.chat.decode(patient.request(inquiry).prompt)}"
    yield f"--- the patient says\n{answer}"


def _scores(scorer: Scorer, case: Case, consultation: Consultation) -> Iterator[str]:
    """The scorer's last prompt, and the probabilities that it gave on the way there."""
    exchanges, labels = consultation.exchanges, case.public.labels
    seen = [exchanges[:count] for count in range(len(exchanges) + 1)]
    yield f"--- the scorer reads\n{scorer_prompt(case.public, exchanges)}"
    for count, read in enumerate(scorer.probabilities([(case.public, s) for s in seen])):
        if isinstance(read, Failure):
            raise UserError(f"the scorer's server failed ({read}); check the server")
        shares = ", ".join(f"{label} {p:.2f}" for label, p in zip(labels, read, strict=True))
        yield f"--- the scorer says after {count} answers: {shares}"
