"""Why a question was credited, in words."""

from pcqc.study import Method

# What a question's utility is, for each `question_utility`.
UTILITY = {
    "scorer": "With this question and its answer the scorer gives the correct option a probability "
    "of {utility:.3f} (the utility); before them it was {before:.3f}.",
    "continuations": "Of the consultations that went on from this question, a share of "
    "{utility:.3f} ended in the correct diagnosis (the utility); of all candidates', {before:.3f}.",
    "expected_answer": "Over the answers that this question might get, the correct option's "
    "probability is {utility:.3f} on average (the utility); it is compared with {before:.3f}.",
}


def why(group: dict, candidate: dict, method: Method) -> str:
    """One paragraph that derives a candidate's credit from its group (eq:group_credit).

    Args:
        group: a row of candidate_groups.jsonl.
        candidate: one of its candidates.
        method: whose question credit and utility it is.
    """
    before, utility = group["baseline"], candidate["utility"]
    first = UTILITY[method.question_utility].format(utility=utility, before=before)
    if candidate["question"] is None and method.question_utility == "scorer":
        first = (
            "This response asks no question, so the scorer read the dialogue without it: the "
            f"probability of the correct option stayed {before:.3f}."
        )
    return f"{first} {_compared(group, candidate, method.question_credit)}"


def _compared(group: dict, candidate: dict, question_credit: str) -> str:
    """What the utility is compared with, and the credit that comes of it."""
    credit, spread = candidate["credit"], group["spread"]
    if not candidate["supervised"]:
        return "Its tokens were not supervised, so the policy learned nothing from it."
    if question_credit == "executed_local":
        return (
            "Executed-local credit compares its gain with those of all executed questions of this "
            f"update, whatever their state: credit {credit:+.2f}."
        )
    utilities = [other["utility"] for other in group["candidates"]]
    if credit == 0:
        return (
            f"All {len(utilities)} candidates at this state have nearly the same utility (standard "
            f"deviation {spread:.1e}), so none of them is credited."
        )
    mean = sum(utilities) / len(utilities)
    if question_credit == "leave_one_out":
        rest = (sum(utilities) - candidate["utility"]) / (len(utilities) - 1)
        return (
            f"The other {len(utilities) - 1} candidates at this state have a mean utility of "
            f"{rest:.3f}: credit {candidate['utility']:.3f} - {rest:.3f} = {credit:+.2f}."
        )
    return (
        f"The {len(utilities)} candidates at this state have a mean utility of {mean:.3f} with "
        f"standard deviation {spread:.3f}: "
        f"credit ({candidate['utility']:.3f} - {mean:.3f}) / {spread:.3f} "
        f"= {credit:+.2f}."
    )
