"""The published sets that cases come from, beside the paper's counts (app:data_provenance)."""

from typing import Any

from analysis.collected import Collected
from analysis.load import read_cards
from analysis.published import published
from analysis.table import MISSING, Cell, Column, Number, Row, Table, listed

COLUMNS = (
    Column("set", "Set", numeric=False),
    Column("paper", "In the paper", "Cases"),
    Column("converted", "Converted", "Cases"),
    Column("excluded", "Excluded", "Cases"),
    Column("used", "Used", "Cases"),
    Column("options", "Options", numeric=False),
    Column("answers", "Answers A/B/…", numeric=False),
    Column("facts", "Facts per case", numeric=False),
    Column("initial", "Words at first", numeric=False),
)
SHOWN_DIGITS = 12  # of a digest
SHOWN_EXCLUSIONS = 3  # of a set; the others stand in its exclusions.csv


def build(collected: Collected) -> Table:
    """One row per published file of the study, in its order."""
    cards, used = read_cards(collected.study)
    rows, digests, excluded = [], [], []
    for name, card in cards.items():
        title = f"{'SFT' if name == 'sft' else 'Training'} ({card['source']})"
        if name in collected.benchmarks:
            title = collected.benchmarks[name].title
        rows.append(Row(name, (title, *_counts(name, card, used), *_contents(card))))
        digests.append(f"{title} {card['raw']['sha256'][:SHOWN_DIGITS]}")
        for row in card["exclusions"][:SHOWN_EXCLUSIONS]:
            # Reasons quote their rows; what LaTeX may have no letters for is left to the file.
            reason = row["reason"] if row["reason"].isascii() else "see the set's exclusions.csv"
            excluded.append(f"Excluded: {title}, line {row['row']} ({row['case_id']}): {reason}.")
    caption = (
        "A row is a published file of cases. Converted: its cases. Used: the cases that the study "
        "reads; the others are listed in the set's exclusions.csv or were not drawn. Facts, and "
        "words of the initial information, per case: median (smallest to largest)."
    )
    notes = (*excluded, f"Published files, by the start of their SHA-256: {listed(digests)}.")
    return Table("data_cards", "Where the cases come from.", caption, COLUMNS, tuple(rows), notes)


def _counts(name: str, card: dict[str, Any], used: dict[str, int]) -> list[Cell]:
    """Cases (turns of SFT rows) in the paper, converted, excluded and used."""
    paper = published()
    counts = [
        paper.benchmarks[name].cases
        if name in paper.benchmarks
        else paper.training_cases.get(card["source"]),
        card.get("cases", card.get("turns")),
        len(card["exclusions"]),
        used.get(f"{name}.jsonl"),
    ]
    return [MISSING if count is None else Number(count, digits=0) for count in counts]


def _contents(card: dict[str, Any]) -> list[Cell]:
    """Options, answers, facts and words of cases; SFT rows have none of their own."""
    if "cases" not in card:
        return [MISSING] * 4
    options = [int(count) for count in card["options"]]
    return [
        "–".join(map(str, sorted({min(options), max(options)}))),
        "/".join(f"{count:,}" for count in card["answers"].values()),
        *(
            f"{spread['median']:g} ({spread['min']}–{spread['max']})"
            for spread in (card["facts"], card["words"]["initial"])
        ),
    ]
