"""Credits beside exact values, as a table."""

from analysis.credits.measures import CHANCE, CREDITS, Estimate, Judged
from analysis.table import MISSING, Cell, Column, Number, Range, Row, Table, listed

NAME = "credit_quality"
COLUMNS = (
    Column("credit", "Credit", numeric=False),
    Column("rank", "Rank", "With Q*"),
    Column("rank_interval", "95% CI", "With Q*"),
    Column("rank_last", "Rank", "If it is the last"),
    Column("regret", "Regret (pp)", "Favourite"),
    Column("regret_interval", "95% CI", "Favourite"),
    Column("sign", "Sign (%)"),
    Column("luck", "Luck (%)"),
    Column("asking", "Asks (%)"),
    Column("seconds", "Seconds"),
)


def build(judged: Judged) -> Table:
    """Every credit, and one that knows nothing."""
    caption = (
        f"{judged.states} states of {listed(judged.policies)} with {judged.candidates} candidate "
        f"questions each; {judged.differing} of them have questions of different exact value, and "
        "only they count. Rank: Spearman's correlation of credit and value within a state. Q*: "
        "accuracy after the question if best ones follow as long as the turns last; beside it, if "
        "the question is the last. Favourite: Q* of the best candidate less that of the one with "
        "the highest credit. Sign: questions above or below the state's mean whose credit has "
        "that sign. Luck: share of a credit's variance that another continuation of the same "
        "question changes. Asks: states at which asking is credited over answering at once; by "
        f"the policies' own continuations, asking gains at {Number(judged.asking, digits=0).text()}"
        "%. Seconds: to credit one state's candidates on this machine. Intervals resample cases."
    )
    rows = [_row(judged, name, title) for name, (title, _) in CREDITS.items()]
    rows.append(_row(judged, CHANCE, "Chance", rule=True))
    title = f"How well each credit ranks questions: {judged.study.title}."
    return Table(NAME, title, caption, COLUMNS, tuple(rows))


def _row(judged: Judged, name: str, title: str, rule: bool = False) -> Row:
    found = judged.qualities[name]
    cells: tuple[Cell, ...] = (
        title,
        Number(found.rank.mean),
        _range(found.rank),
        Number(found.rank_last.mean),
        Number(found.regret.mean),
        _range(found.regret, signed=False),
        Number(found.sign.mean, digits=0),
        MISSING if found.luck is None else Number(found.luck, digits=0),
        MISSING if found.asking is None else Number(found.asking.mean, digits=0),
        MISSING if found.seconds is None else Number(found.seconds, digits=3),
    )
    return Row(name, cells, rule=rule, strong=name == "pcqc")


def _range(estimate: Estimate, signed: bool = True) -> Range:
    return Range(estimate.low, estimate.high, signed=signed)
