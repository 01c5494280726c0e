"""fig:teaser: what terminal rewards and what PCQC learn from one real state of a consultation."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.continuation import Continued, policies
from analysis.drawing.boxes import (
    ACTOR,
    CREDIT,
    PATIENT,
    PLAIN,
    SCORER,
    arrow,
    box,
    canvas,
    wrapped,
    write,
)
from analysis.drawing.style import WIDTH

ROW = 0.46  # inches, of a candidate
UP, DOWN = "#0072b2", "#d55e00"


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    policy, state = telling_state(collected)
    case_id = policy.case_ids[state] if state is not None else "none"
    return (
        "Learning from questions never asked. Left: with a terminal reward, the final diagnosis "
        "alone says what the question was worth. Right: PCQC samples other questions at the same "
        "state, has them answered from the patient's facts, and credits each by its utility (the "
        "scorer's probability of the right diagnosis after the answer) relative to the others'. "
        f"An example: case {case_id}, questions and answers of {policy.title}, utilities and "
        "credit as computed there."
    )


def telling_state(collected: Collected) -> tuple[Continued, int | None]:
    """A state at which most is asked and compared: the policy's states, and its number.

    It has most distinct questions, of those most grounded ones, of those the widest range of
    utility. No number where no policy has a state.
    """
    studied = [policy for policy in policies(collected) if not policy.early]
    states = [(policy, i) for policy in studied for i in range(len(policy.case_ids))]
    return max(states, key=_told) if states else (studied[0], None)


def _told(place: tuple[Continued, int]) -> tuple[int, int, float]:
    policy, i = place
    asked, grounded = policy.questions[i], policy.eligible[i]
    answered = {question for question, ok in zip(asked, grounded, strict=True) if ok}
    return len(set(asked)), len(answered), float(np.ptp(policy.utility[i]))


def draw(collected: Collected) -> Figure:
    """One state, its candidates, and what either way of learning makes of them."""
    policy, state = telling_state(collected)
    rows = max(policy.utility.shape[1], 4)  # the left side has as many steps
    height = 1.75 + ROW * rows
    figure, ax = canvas(WIDTH, height)
    if state is None:
        write(ax, WIDTH / 2, height / 2, "No state of this study has a group of candidates.")
        return figure
    dialogues = collected.dialogues(*policy.policy, collected.study.development)
    case = next(d for d in dialogues if d["case_id"] == policy.case_ids[state])
    _terminal(ax, policy, state, case, height)
    _compared(ax, policy, state, case, height)
    ax.plot([2.35, 2.35], [0.1, height - 0.1], color="#bbbbbb", linewidth=0.8)
    return figure


def _state(ax: Axes, left: float, top: float, width: float, case: dict) -> None:
    options = ", ".join(f"{label}.\u00a0{text}" for label, text in case["options"].items())
    characters = int(width * 17)
    text = f"{wrapped(case['initial'], characters)}\n{wrapped(options, characters, 3)}"
    box(ax, left, top - 0.72, width, 0.72, text)


def _terminal(ax: Axes, policy: Continued, state: int, case: dict, height: float) -> None:
    """Left: one question is executed, and only the end of the consultation says anything."""
    left, width, top = 0.12, 2.05, height - 0.38
    write(ax, left, height - 0.18, "Terminal-reward RL", "left", fontweight="bold", fontsize=9)
    _state(ax, left, top, width, case)
    middle = left + width / 2
    total = policy.manifest["continuations"]
    right = round(policy.success[state, 0] * total)
    steps = [
        (f"$q_1$: {wrapped(policy.questions[state][0], 34)}", ACTOR),
        (wrapped(policy.answers[state][0], 34), PATIENT),
        (f"… final diagnosis\n({right} of {total} continuations right)", PLAIN),
        ("terminal reward for all tokens", CREDIT),
    ]
    gap = (top - 0.72 - 0.15) / len(steps)
    y = top - 0.72
    for text, look in steps:
        arrow(ax, (middle, y), (middle, y - gap + 0.34))
        box(ax, left, y - gap, width, 0.34, text, look)
        y -= gap


def _compared(ax: Axes, policy: Continued, state: int, case: dict, height: float) -> None:
    """Right: every candidate is answered, scored and compared; the first one is executed."""
    left, top = 2.55, height - 0.38
    write(ax, left, height - 0.18, "PCQC", "left", fontweight="bold", fontsize=9)
    _state(ax, left, top, 2.9, case)
    heads = top - 0.86
    write(ax, 3.2, heads, "candidate question", fontsize=7)
    write(ax, 4.62, heads, "answer from the facts", fontsize=7)
    write(ax, 5.8, heads, "utility $u_i$", fontsize=7)
    write(ax, 6.58, heads, "credit $A_i^Q$", fontsize=7)
    for k in range(policy.utility.shape[1]):
        _candidate(ax, policy, state, k, heads - 0.12 - ROW * (k + 1))
    bottom = heads - 0.12 - ROW * policy.utility.shape[1]
    note = "Only $q_1$ continues the consultation; the question tokens of all candidates learn."
    write(ax, left, bottom - 0.14, note, "left", fontsize=7)


def _candidate(ax: Axes, policy: Continued, state: int, k: int, bottom: float) -> None:
    utility, credit = policy.utility[state, k], policy.credit[state, k]
    tall, middle = ROW - 0.08, bottom + (ROW - 0.08) / 2
    question = f"$q_{k + 1}$: {wrapped(policy.questions[state][k], 22)}"
    box(ax, 2.55, bottom, 1.3, tall, question, ACTOR, bold=k == 0)
    arrow(ax, (3.85, middle), (4.0, middle))
    box(ax, 4.0, bottom, 1.25, tall, wrapped(policy.answers[state][k], 22), PATIENT)
    arrow(ax, (5.25, middle), (5.4, middle))
    face, edge = SCORER
    ax.barh(middle, 0.8, height=0.16, left=5.4, color=face)
    ax.barh(middle, 0.8 * utility, height=0.16, left=5.4, color=edge)
    write(ax, 5.8, middle + 0.15, f"{utility:.2f}", fontsize=7)
    sign = "+" if credit > 0 else "−" if credit < 0 else ""
    colour = UP if credit > 0 else DOWN if credit < 0 else "#555555"
    write(ax, 6.58, middle, f"{sign}{abs(credit):.2f}", color=colour, fontweight="bold")
