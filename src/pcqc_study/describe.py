"""What is said of a method: in a clause, in a table, and beside each question.

A description is of one class, by its name. A class that changes another's credit inherits no
description: of a method without one, utility and credit are shown, and nothing is derived.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pcqc_base.settings import Method

Candidate = Mapping[str, Any]  # of a row of candidate_groups.jsonl
Group = Mapping[str, Any]

# How the setting `divide` is worded.
DIVIDED = {
    "group": "",
    "none": ", undivided",
    "update": ", divided by the deviation over the update",
    "shrunk": ", divided by the deviation at the state and over the update",
}
TURNS = {
    "igpo": "each turn with the beliefs gained from it on, and the reward",
    "tips": "each turn with the reward, shaped by the log-probability of the correct option",
    "vineppo": "each turn with the change of its Monte-Carlo value",
    "gigpo": "each turn with the reward, and beside others at the same state",
    "mt_grpo": "each turn with the belief gained in it, and the reward",
    "a2tgpo": "each turn with the beliefs gained from it on, over the root of their number, "
    "and the reward",
    "arew": "each turn with the reward, a little more where the belief rose, less where it fell",
    "infopo": "each turn with the reward and, where rewards are alike, by how much likelier "
    "its answer made the next response",
}
SAME_STATE, ACROSS_STATES = "same state", "across states"  # rules of credit
NOT_TRAINED = "Its tokens were not supervised, so the policy learned nothing from it."


@dataclass(frozen=True)
class Description:
    """How a method is described.

    Attributes:
        words: what it samples and how it credits, after "60 updates on ".
        size: how much it samples of a case, for a table.
        utility, no_question: what a candidate's utility is; of a response without a question.
        credit: what a supervised candidate's utility is compared with, and its credit.
        rule: by which questions are credited, where it is one of the two that are compared.
    """

    words: Callable[[Any], str]
    size: Callable[[Any], str] = lambda method: f"G_T = {method.terminal_group}"
    utility: str = ""
    no_question: str = ""
    credit: Callable[[Any, Group, Candidate], str] | None = None
    rule: str = ""


def words(method: Method) -> str:
    """What a method samples and how it credits, in a clause."""
    known = DESCRIBED.get(type(method).__name__)
    return known.words(method) if known else f"`{method.method}`, which has no description here"


def size(method: Method) -> str:
    """How much a method samples of a case, such as `G_T = 4`."""
    known = DESCRIBED.get(type(method).__name__)
    return known.size(method) if known else "its own sizes"


def rule(method: Method) -> str:
    """By which of the two compared rules a method credits questions; empty: by another."""
    known = DESCRIBED.get(type(method).__name__)
    return known.rule if known else ""


def why(method: Method, group: Group, candidate: Candidate) -> str:
    """One paragraph that derives a candidate's credit from its group (eq:group_credit).

    Args:
        method: that credited it.
        group: a row of candidate_groups.jsonl.
        candidate: one of its candidates.
    """
    known = DESCRIBED.get(type(method).__name__)
    if known is None or known.credit is None:
        return f"Utility {candidate['utility']:.3f}, credit {candidate['credit']:+.2f}."
    if type(method).__name__ == "PcqcStopping":
        return _of_stopping(method, group, candidate)
    return _of_question(method, known, group, candidate)


def _of_question(method: Any, known: Description, group: Group, candidate: Candidate) -> str:
    text = known.utility if candidate["question"] else known.no_question
    text = text.format(utility=candidate["utility"], before=group["baseline"])
    rest = known.credit(method, group, candidate) if candidate["supervised"] else NOT_TRAINED
    return f"{text} {rest}"


def _of_stopping(method: Any, group: Group, candidate: Candidate) -> str:
    """A final answer has credit too, of its marker."""
    trained = method.supervise == "all" or candidate["executed"]
    if candidate["question"] and candidate["answer"] is None:
        text = "A question at the last turn ends the consultation without a diagnosis, so its "
        text += f"utility is 0. {_same_state(method, group, candidate) if trained else ''}"
    else:
        known = DESCRIBED["PcqcStopping"]
        text = _of_question(method, known, group, {**candidate, "supervised": trained})
    decision = " The decision to ask or to conclude gets the same credit."
    return f"{text}{decision if trained else ''}"


def _same_state(method: Any, group: Group, candidate: Candidate) -> str:
    """The credit of PCQC, in numbers."""
    count, spread = len(group["candidates"]), group["spread"]
    if candidate["credit"] == 0:
        return (
            f"All {count} candidates at this state have nearly the same utility (standard "
            f"deviation {spread:.1e}), so none of them is credited."
        )
    mean = sum(other["utility"] for other in group["candidates"]) / count
    difference, credit = candidate["utility"] - mean, candidate["credit"]
    divisor = spread if method.divide == "group" else difference / credit
    return (
        f"The {count} candidates at this state have a mean utility of {mean:.3f} with standard "
        f"deviation {spread:.3f}: credit ({candidate['utility']:.3f} - {mean:.3f}) / "
        f"{divisor:.3f} = {credit:+.2f}{DIVIDED[method.divide]}."
    )


def _across_states(method: Any, group: Group, candidate: Candidate) -> str:
    """The credit of Executed-local."""
    return (
        "Executed-local credit compares its gain with those of all executed questions of this "
        f"update, whatever their state: credit {candidate['credit']:+.2f}."
    )


def _leave_one_out(method: Any, group: Group, candidate: Candidate) -> str:
    """The credit of C3, in numbers."""
    if candidate["credit"] == 0:
        return _same_state(method, group, candidate)
    utilities, own = [c["utility"] for c in group["candidates"]], candidate["utility"]
    rest = (sum(utilities) - own) / (len(utilities) - 1)
    return (
        f"The other {len(utilities) - 1} candidates at this state have a mean utility of "
        f"{rest:.3f}: credit {own:.3f} - {rest:.3f} = {candidate['credit']:+.2f}."
    )


def _by_name(method: Any, group: Group, candidate: Candidate) -> str:
    """The credit of a function that the settings name."""
    return f"`{method.question_credit}` gives it the credit {candidate['credit']:+.2f}."


def _outcomes(method: Any) -> str:
    return (
        f"{method.terminal_group} consultations a case; credit: all turns with the reward of the "
        "whole consultation; questions get no credit of their own"
    )


def _turns(method: Any) -> str:
    credit = TURNS.get(method.turn_credit, f"each turn by {method.turn_credit}")
    return f"{method.terminal_group} consultations a case; credit: {credit}"


def _compared(how: str) -> Callable[[Any], str]:
    """Words of a method that compares questions; `how` it does."""

    def of(method: Any) -> str:
        taught = "all candidates" if method.trained_candidates > 1 else "executed questions only"
        return (
            f"{method.terminal_group} consultations a case and {method.question_group} candidate "
            "responses a state; credit: all turns with the reward of the whole consultation; "
            f"{how}{DIVIDED[method.divide]}, and {taught} are supervised (beta {method.beta:g})"
        )

    return of


_SCORED = "what the scorer makes of the answer"
_AT_STATE = "questions are compared with the other candidates at the same state by"
_PLAYED = (
    "Of the consultations that went on from this question, a share of {utility:.3f} ended in the "
    "correct diagnosis (the utility); of all candidates', {before:.3f}."
)
_IMAGINED = (
    "Over the answers that this question might get, the correct option's probability is "
    "{utility:.3f} on average (the utility); it is compared with {before:.3f}."
)
_OF_SCORER = (
    "With this question and its answer the scorer gives the correct option a probability of "
    "{utility:.3f} (the utility); before them it was {before:.3f}.",
    "This response asks no question, so the scorer read the dialogue without it: the probability "
    "of the correct option stayed {before:.3f}.",
)
_PCQC = _compared(f"{_AT_STATE} {_SCORED}")


def _size(method: Any) -> str:
    return f"G_T = {method.terminal_group}"


DESCRIBED: dict[str, Description] = {
    "Sft": Description(
        lambda method: "supervised fine-tuning, the start of every other method",
        lambda method: "not trained",
    ),
    "Grpo": Description(_outcomes),
    "Atpo": Description(
        lambda method: (
            f"a searched tree of up to {method.tree.budget} consultations a case, credited turn "
            "by turn by a critic"
        ),
        lambda method: f"a tree of up to {method.tree.budget} consultations",
    ),
    "Pcqc": Description(_PCQC, _size, *_OF_SCORER, _same_state, SAME_STATE),
    "ExecutedLocal": Description(
        _compared(
            "executed questions are compared across all states of an update by what the scorer "
            "makes of the answer"
        ),
        _size,
        *_OF_SCORER,
        _across_states,
        ACROSS_STATES,
    ),
    "C3": Description(
        _compared(
            "questions are compared with the mean of the others at the same state by the reward "
            "of consultations that go on from it"
        ),
        _size,
        _PLAYED,
        _PLAYED,
        _leave_one_out,
    ),
    "ExpectedAnswer": Description(
        _compared(f"{_AT_STATE} what the answers that it might get are worth"),
        _size,
        _IMAGINED,
        _IMAGINED,
        _same_state,
        SAME_STATE,
    ),
    "PcqcStopping": Description(
        lambda method: (
            f"{_PCQC(method)}; the decision to ask or to conclude is credited as a question is "
            f"(weight {method.stopping_weight:g})"
        ),
        _size,
        *_OF_SCORER,
        _same_state,
        SAME_STATE,
    ),
    "TurnCredit": Description(_turns),
    "TurnProcess": Description(_turns),
    "CreditedTurns": Description(_turns),
    "CreditedQuestions": Description(
        _compared("questions are credited by a function that the settings name"),
        _size,
        *_OF_SCORER,
        _by_name,
    ),
}
