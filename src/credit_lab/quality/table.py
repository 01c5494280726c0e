"""Credits beside exact values, as a table."""

from math import isnan

from analysis.notices import captioned
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, listed
from credit_lab.quality.measures import BEST, CHANCE, COSTS, CREDITS, LAST, Judged, Quality

NAME = "credit_quality"
IN_WORDS = {LAST: "If it is the last", BEST: "If best ones follow (Q*)"}
COLUMNS = (
    Column("credit", "Credit", numeric=False),
    *(
        Column(f"{key}_{value}", title, words)
        for value, words in IN_WORDS.items()
        for key, title in (("rank", "Rank"), ("interval", "95% CI"), ("regret", "Regret (pp)"))
    ),
    Column("sign", "Sign (%)"),
    Column("luck", "Luck (%)"),
    Column("asking", "Asks (%)"),
    Column("sampled", "Sampled", "Tokens"),
    Column("read", "Read", "Tokens"),
    Column("seconds", "Seconds"),
)


def build(judged: Judged) -> Table:
    """Every credit, and one that knows nothing."""
    study, last, best = judged.study, judged.differing[LAST], judged.differing[BEST]
    policies = listed([study.method(method).title for method, _ in study.credited])
    caption = (
        f"{judged.states} states of {policies} with {study.credit_quality.candidates} candidate "
        "questions each. The exact value of a question is the accuracy of the Bayes diagnosis "
        f"after it: if it is the last one, which differs within {last} of the states, or if best "
        f"ones follow as long as the turns last (Q*), within {best}; only these count. Rank: "
        "Spearman's correlation of credit and value within a state. Regret: value of the best "
        "candidate less that of the one with the highest credit. Sign: questions above or below "
        "the state's mean whose credit has that sign. Luck: share of a credit's variance that "
        "another continuation of the same question changes. Asks: states at which asking is "
        "credited over answering at once; by the policies' own continuations, asking gains at "
        f"{Number(judged.asking, digits=0).text()}%. Tokens, of all roles, and seconds on this "
        "machine: to credit one state's candidates. A token counts as read wherever its keys and "
        "values came from. Imagined: by answers that the patient gives where it is told a "
        "diagnosis, drawn from the actor's belief, and nothing else. Intervals resample cases."
    )
    rows = [_row(name, title, judged.qualities[name]) for name, (title, _) in CREDITS.items()]
    rows.append(_row(CHANCE, "Chance", judged.qualities[CHANCE]))
    title = f"How well each credit ranks questions: {study.title}."
    return Table(NAME, title, captioned(study, caption), COLUMNS, tuple(rows))


def _row(name: str, title: str, quality: Quality) -> Row:
    cells: list[Cell] = [title]
    for value in IN_WORDS:
        rank = quality.rank[value]
        interval = MISSING if isnan(rank.low) else Range(rank.low, rank.high)
        cells += [_number(rank.mean, 2), interval, _number(quality.regret[value].mean, 2)]
    asking = None if quality.asking is None else quality.asking.mean
    cells += [_number(share, 0) for share in (quality.sign.mean, quality.luck, asking)]
    costs = quality.costs or {}
    cells += [_number(costs.get(cost), 3 if cost == "seconds" else 0) for cost in COSTS]
    return Row(name, tuple(cells), rule=name == CHANCE, strong=name == "pcqc")


def _number(value: float | None, digits: int) -> Cell:
    return MISSING if value is None or isnan(value) else Number(value, digits=digits)
