"""Where the cases of a study come from, beside the paper's counts, and what overlaps.

The published sets (app:data_provenance), and evaluation cases that overlap with training data, as
the audit counts them (app:data_overlap).
"""

from typing import Any

from analysis.collected import Collected
from analysis.load import read_cards, read_overlap
from analysis.published import published
from analysis.table import MISSING, Cell, Column, Number, Row, Table, ends, listed

CARDS = (
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
TRAINING = {"train": "training cases", "sft": "SFT conversations"}
COUNTS = {
    "evaluation_cases": ("Evaluation", "Compared"),
    "training_prompts": ("Training", "Compared"),
    "full_prompt": ("Full prompt", "Exact matches"),
    "case_and_problem": ("Case and problem", "Exact matches"),
    "char_5gram": ("Char. 5-grams", "Near-duplicates"),
    "word_1_2gram": ("Words 1–2", "Near-duplicates"),
    "near_duplicates": ("Either", "Near-duplicates"),
}


def cards(collected: Collected) -> Table:
    """One row per published file of the study, in its order."""
    by_set, used = read_cards(collected.study)
    rows, digests, excluded = [], [], []
    for name, card in by_set.items():
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
    return Table("data_cards", "Where the cases come from.", caption, CARDS, tuple(rows), notes)


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
    return [
        ends(map(int, card["options"])),
        "/".join(f"{count:,}" for count in card["answers"].values()),
        *(
            f"{spread['median']:g} ({spread['min']}–{spread['max']})"
            for spread in (card["facts"], card["words"]["initial"])
        ),
    ]


def overlap(collected: Collected) -> Table:
    """One row per evaluation and training set; counts are of evaluation cases."""
    thresholds, counts = read_overlap(collected.study)
    counted = counts.to_dict("records")
    labels = ("Evaluation", "Training")
    columns = [Column(label.lower(), label, numeric=False) for label in labels]
    columns += [Column(key, title, group) for key, (title, group) in COUNTS.items()]
    several = len({count["training"] for count in counted}) > 1
    rows = []
    for count in counted:
        name, training = count["evaluation"], count["training"]
        title = collected.benchmarks[name].title if name in collected.benchmarks else name
        numbers = [Number(int(count[key]), digits=0) for key in COUNTS]
        cells = (title, TRAINING.get(training, training), *numbers)
        rule = several and training == counted[0]["training"]
        rows.append(Row(f"{name}:{training}", cells, rule))
    # What the paper reports is of its own training data, which need not be this study's.
    paper = published().overlap
    atpo, icraft = paper["atpo_sets"], paper["icraft_md"]
    caption = (
        "Cells count evaluation cases. Exact matches: the normalised first prompt, or its case and "
        "problem, is that of a training case. Near-duplicates: the cosine of the two prompts' "
        f"counts is at least {thresholds['char_5gram']:.2f} for character 5-grams, or "
        f"{thresholds['word_1_2gram']:.2f} for words and pairs of words. Every pair is in "
        "data/overlap/pairs.csv. "
        "The paper, for its own training data and the three ATPO sets, finds "
        f"{atpo['full_prompt']} full prompts, {atpo['medqa_case_and_problem']} MedQA matches of "
        f"case and problem and near-duplicates of {atpo['near_duplicates']} evaluation cases; for "
        f"iCRAFT-MD {icraft['full_prompt']} and {icraft['near_duplicates']}."
    )
    title = "Overlap between training and evaluation."
    return Table("overlap", title, caption, tuple(columns), tuple(rows))
