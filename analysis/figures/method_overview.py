"""fig:method_overview: training with the study's own settings, and what each role sees."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.drawing.boxes import (
    ACTOR,
    CREDIT,
    PATIENT,
    PLAIN,
    SCORER,
    arrow,
    box,
    canvas,
    write,
)
from analysis.drawing.style import WIDTH
from analysis.tables import information_access

HEIGHT = 3.35
MATH = {"observed": "$O_t$", "question": "$q_i$", "facts": "facts $z$", "task": "task"}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    method = collected.study.method("pcqc")
    return (
        f"How PCQC trains. At a dialogue state O_t the policy samples G_Q = "
        f"{method.question_group} candidate questions. A frozen patient model answers each from "
        "the facts z; a frozen scorer then gives the probability of the right diagnosis, the "
        "question's utility. Utilities, standardised within the state, credit the tokens of the "
        "questions. All tokens of a consultation are credited by its diagnosis, as in GRPO, over "
        f"G_T = {method.terminal_group} consultations. Which inputs each role sees was tested by "
        "changing them."
    )


def draw(collected: Collected) -> Figure:
    """Question credit above, terminal rewards below, both ending in one policy update."""
    figure, ax = canvas(WIDTH, HEIGHT)
    _question_credit(ax, collected)
    _terminal(ax, collected)
    return figure


def _seen(role: str, collected: Collected) -> str:
    """`sees ...`: what a role's prompt depends on, from the table of information access."""
    table = information_access.build(collected)
    row = next(row for row in table.rows if row.key == role)
    keys = [column.key for column in table.columns]
    seen = [MATH[k] for k, cell in zip(keys, row.cells, strict=True) if cell == "Yes" and k in MATH]
    return f"sees {', '.join(seen)}"


def _question_credit(ax: Axes, collected: Collected) -> None:
    method = collected.study.method("pcqc")
    top, count = HEIGHT - 0.45, method.question_group
    title = "Question credit, at every asking state of the first consultation"
    write(ax, 0.1, HEIGHT - 0.17, title, "left", fontweight="bold", fontsize=8.5)
    low, tall = top - 1.15, 1.15
    box(ax, 0.1, low, 0.75, tall, "state\n$O_t$")
    box(ax, 1.1, low, 1.15, tall, f"Actor\n$\\pi_\\theta$\n{_seen('actor', collected)}", ACTOR)
    box(ax, 3.15, low, 1.2, tall, f"Patient\n(frozen)\n{_seen('patient', collected)}", PATIENT)
    scorer = f"Scorer $s_\\phi$\n(frozen)\n{_seen('scorer', collected)},\n$a_i$"
    box(ax, 4.65, low, 1.12, tall, scorer, SCORER)
    middle = low + tall / 2
    arrow(ax, (0.85, middle), (1.1, middle))
    for k in range(count):
        y = low + tall * (count - k - 0.5) / count
        arrow(ax, (2.25, y), (3.15, y), dashed=k > 0)
        write(ax, 2.7, y + 0.08, f"$q_{k + 1}$" + ("  executed" if k == 0 else ""), fontsize=7)
        arrow(ax, (4.35, y), (4.65, y), dashed=k > 0)
        write(ax, 4.49, y + 0.08, f"$a_{k + 1}$", fontsize=7)
        arrow(ax, (5.77, y), (6.07, y), dashed=k > 0)
        write(ax, 5.91, y + 0.08, f"$u_{k + 1}$", fontsize=7)
    box(ax, 6.07, low, 0.85, tall, "", CREDIT)
    write(ax, 6.5, middle + 0.27, "compare\nwithin state")
    write(ax, 6.5, middle - 0.2, "$A_i^Q=\\dfrac{u_i-\\bar u}{\\sigma_Q}$")
    write(ax, 5.21, low - 0.12, "$y^*$ picks the correct option's probability", fontsize=7)


def _terminal(ax: Axes, collected: Collected) -> None:
    method = collected.study.method("pcqc")
    bottom, tall = 0.2, 0.68
    title = "Terminal reward: complete consultations"
    write(ax, 0.1, bottom + tall + 0.16, title, "left", fontweight="bold", fontsize=8.5)
    consultations = f"$G_T$ = {method.terminal_group} consultations\nper case; $(q_1, a_1)$ goes on"
    box(ax, 0.1, bottom, 1.9, tall, consultations, ACTOR)
    box(ax, 2.3, bottom, 1.35, tall, "reward: final\ndiagnosis right?", PLAIN)
    box(ax, 3.95, bottom, 1.1, tall, "$A^T$ within\nthe case's group", CREDIT)
    loss = (
        "policy update\n$\\mathcal{L}_T + \\beta\\,\\mathcal{L}_Q$ + KL\n"
        f"$\\beta$ = {method.beta:g}, KL weight {method.kl_coefficient:g}"
    )
    box(ax, 5.35, bottom, 1.57, tall, loss, PLAIN, bold=True)
    middle = bottom + tall / 2
    for start, end in ((2.0, 2.3), (3.65, 3.95), (5.05, 5.35)):
        arrow(ax, (start, middle), (end, middle))
    arrow(ax, (6.61, HEIGHT - 1.6), (6.61, bottom + tall), colour=CREDIT[1])
