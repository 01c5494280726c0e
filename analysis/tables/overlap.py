"""Evaluation cases that overlap with training data, as the audit counts them: app:data_overlap."""

from analysis.collected import Collected
from analysis.load import read_overlap
from analysis.published import published
from analysis.table import Column, Number, Row, Table

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


def build(collected: Collected) -> Table:
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
