"""Credits beside exact values, as a table."""

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
    last, best = judged.differing[LAST], judged.differing[BEST]
    caption = (
        f"{judged.states} states of {listed(judged.policies)} with {judged.candidates} candidate "
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
    rows = [_row(judged, name, title) for name, (title, _) in CREDITS.items()]
    rows.append(_row(judged, CHANCE, "Chance", rule=True))
    title = f"How well each credit ranks questions: {judged.study.title}."
    return Table(NAME, title, captioned(judged.study, caption), COLUMNS, tuple(rows))


def _row(judged: Judged, name: str, title: str, rule: bool = False) -> Row:
    found = judged.qualities[name]
    exact: list[Cell] = []
    for value in IN_WORDS:
        rank = found.rank[value]
        exact += [Number(rank.mean), Range(rank.low, rank.high), Number(found.regret[value].mean)]
    cells: tuple[Cell, ...] = (
        title,
        *exact,
        Number(found.sign.mean, digits=0),
        MISSING if found.luck is None else Number(found.luck, digits=0),
        MISSING if found.asking is None else Number(found.asking.mean, digits=0),
        *_costs(found),
    )
    return Row(name, cells, rule=rule, strong=name == "pcqc")


def _costs(found: Quality) -> list[Cell]:
    if found.costs is None:
        return [MISSING] * len(COSTS)
    return [Number(found.costs[cost], digits=3 if cost == "seconds" else 0) for cost in COSTS]
