"""Why a question was credited: candidate groups in words, as a table and as a page."""

from collections.abc import Sequence

from pcqc.study import Method
from pcqc.tracking.templates import render

GROUPS_ON_PAGE = 24


def evenly(rows: Sequence, count: int) -> list:
    """At most `count` of `rows`, evenly spaced, the first and the last among them."""
    if len(rows) <= count:
        return list(rows)
    if count == 1:
        return [rows[0]]
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


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


def table(group: dict) -> str:
    """A group's candidates as a Markdown table, the most useful first.

    It is written tightly, because the interface folds long texts.
    """
    return render("candidates.md", candidates=_ranked(group), asked=_asked)


def page(title: str, groups: list[dict]) -> str:
    """A self-contained HTML page of candidate groups, evenly spaced over the run's updates."""
    return render(
        "questions.html",
        title=title,
        groups=evenly(groups, GROUPS_ON_PAGE),
        count=len(groups),
        ranked=_ranked,
        asked=_asked,
    )


def _ranked(group: dict) -> list[dict]:
    return sorted(group["candidates"], key=lambda candidate: -candidate["utility"])


def _asked(candidate: dict) -> str:
    return candidate["question"] or f"(no question) {candidate['response']}"
