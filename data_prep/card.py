"""Counts and lengths of cases or SFT rows: the contents of a data card."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mean, median

from data_prep.parts import strip_numbering
from pcqc.cases.case import Case
from pcqc.cases.sft_rows import SftRow


def describe(records: Sequence[Case] | Sequence[SftRow]) -> dict:
    """Counts, balance and lengths of at least one record."""
    return _turns(records) if isinstance(records[0], SftRow) else _cases(records)


def _cases(cases: Sequence[Case]) -> dict:
    return {
        "cases": len(cases),
        "sets": _counts(case.origin.get("set", case.source) for case in cases),
        "options": _counts(len(case.options) for case in cases),
        "answers": _answers(cases),
        "facts": _distribution(len(case.facts) for case in cases),
        "numbered_facts": sum(strip_numbering(list(case.facts))[1] for case in cases),
        "words": {
            "initial": _distribution(_words(case.initial) for case in cases),
            "question": _distribution(_words(case.question) for case in cases),
            "options": _distribution(sum(map(_words, case.options.values())) for case in cases),
            "facts": _distribution(sum(map(_words, case.facts)) for case in cases),
        },
    }


def _turns(rows: Sequence[SftRow]) -> dict:
    return {
        "turns": len(rows),
        "consultations": len({row.messages[1]["content"] for row in rows}),
        "turn_of_consultation": _counts(len(row.messages) // 2 for row in rows),
        "words": {
            "prompt": _distribution(
                sum(_words(m["content"]) for m in row.messages) for row in rows
            ),
            "response": _distribution(_words(row.response) for row in rows),
        },
    }


def _answers(cases: Sequence[Case]) -> dict[str, int]:
    """How often each label is correct."""
    correct = Counter(case.answer for case in cases)
    labels = sorted({label for case in cases for label in case.options})
    return {label: correct[label] for label in labels}


def _counts(values: Iterable) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}


def _distribution(values: Iterable[int]) -> dict[str, float]:
    """Minimum, median, mean (two decimals), maximum, and the number of zeros."""
    values = list(values)
    return {
        "min": min(values),
        "median": median(values),
        "mean": round(mean(values), 2),
        "max": max(values),
        "none": values.count(0),
    }


def _words(text: str) -> int:
    return len(text.split())
