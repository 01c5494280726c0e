"""The table of claims says what was computed: its words, read against the numbers it prints."""

import re
from dataclasses import replace

import pytest
from built_tables import build

# Method -> share of cases that it gets right on base models 1 to 3, in every run the same ones.
RIGHT = {
    "pcqc": (0.8, 0.8, 0.8),
    "grpo": (0.5, 0.6, 0.9),  # ahead on the third
    "atpo": (0.5, 0.5, 0.78),  # so little behind on the third that chance may be it
    "executed_local": (0.8, 0.8, 0.8),
    "same_state_q1": (0.8, 0.8, 0.82),  # a point ahead on average, on the third three
}
VERDICTS = {
    "accuracy:0": "differs by base model",
    "accuracy:1": "not on each base model",
    "turns:0": "supported",
    "counterfactual:0": "equivalent",
    "unexecuted:0": "undecided",
}
MEANINGS = {
    "Supported": "the 95% interval is above zero, and so is that on each base model, and Holm p is "
    "below 5%",
    "Equivalent": "the 95% interval holds zero, and the difference on each base model is less than "
    "2 points or 0.25 turns, by two one-sided tests on each base model at 5% over all comparisons "
    "(Holm); the study's settings fixed these margins",
    "Undecided": "the 95% interval holds zero, and equivalence is not shown",
    "Differs by base model": "the 95% interval leaves out zero, but on a base model the sign is "
    "another",
    "Not on each base model": "the 95% interval leaves out zero, with one sign on all base models, "
    "but on one of them the interval holds zero",
}
INTERVAL = re.compile(r"\[([+−]?[\d.]+), ([+−]?[\d.]+)\]")


@pytest.fixture
def table(collected):
    bases = []
    for base in range(3):
        rows = collected.predictions.copy()
        number = rows.groupby(["method", "run", "benchmark"]).cumcount()
        place = number * 37 % 97 / 97
        levels = rows["method"].map({m: each[base] for m, each in RIGHT.items()}).fillna(0.5)
        # Executed-local is right in another case of Clinic-Dev than PCQC, and wrong in another.
        other = (rows["method"] == "executed_local") & (rows["benchmark"] == "clinic_dev")
        other &= number.isin([0, 13])
        rows["correct"] = (place < levels) ^ other
        rows["turns"] = 3 + (rows["method"] == "grpo") * (1 + number % 2)
        bases.append(replace(collected, predictions=rows))
    return build("claims", replace(bases[0], others=tuple(bases[1:])))


def ends(text):
    return [tuple(float(end.replace("−", "-")) for end in pair) for pair in INTERVAL.findall(text)]


def on_each_base(table, label):
    """Intervals that the last note prints of a comparison."""
    (part,) = [p for p in table.notes[-1].split("; ") if f"{label} " in p]
    return ends(part)


def said(table):
    """Verdict -> what the note says that it means."""
    (note,) = [note for note in table.notes if note.startswith("Verdicts. ")]
    sentences = note.removeprefix("Verdicts. ").split(". docs/")[0].split(". ")
    return dict(sentence.split(": ", 1) for sentence in sentences)


def test_every_verdict_has_the_words_of_its_rule(table):
    assert {key: table.cell(key, "verdict") for key in VERDICTS} == VERDICTS
    meanings = said(table)
    assert {verdict: meanings[verdict] for verdict in MEANINGS} == MEANINGS


@pytest.mark.parametrize("key", VERDICTS)
def test_the_printed_numbers_are_as_the_words_say(table, key):
    verdict = table.cell(key, "verdict")
    (interval,) = ends(table.cell(key, "interval").text())
    holds_zero = interval[0] <= 0 <= interval[1]
    each = on_each_base(table, table.cell(key, "comparison"))
    assert len(each) == 3
    middles = [sum(pair) / 2 for pair in each]
    signs = {(middle > 0) - (middle < 0) for middle in middles}
    margin = 0.25 if key.startswith("turns") else 2.0
    if verdict == "supported":
        assert interval[0] > 0
        assert all(low > 0 for low, _ in each)
        assert table.cell(key, "p").value < 0.05
    elif verdict == "not on each base model":
        assert not holds_zero
        assert len(signs) == 1
        assert any(low <= 0 <= high for low, high in each)
    elif verdict == "differs by base model":
        assert not holds_zero
        assert len(signs) > 1
    else:
        assert holds_zero
        within = all(-margin < low <= high < margin for low, high in each)
        assert within == (verdict == "equivalent")
