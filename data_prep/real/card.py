"""What a set of cases or SFT rows looks like, in counts: the contents of its data card."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mean, median

from pcqc.cases import Case
from pcqc.sft_rows import SftRow


def describe(records: Sequence[Case] | Sequence[SftRow]) -> dict:
    """Counts, balance and lengths of records, which must not be empty."""
    return _turns(records) if isinstance(records[0], SftRow) else _cases(records)


def _cases(cases: Sequence[Case]) -> dict:
    return {
        "cases": len(cases),
        "sets": _counts(case.origin.get("set", case.source) for case in cases),
        "options": _counts(len(case.options) for case in cases),
        "answers": _answers(cases),
        "facts": _spread(len(case.facts) for case in cases),
        "numbered_facts": sum(int(case.origin.get("numbering", 0)) for case in cases),
        "words": {
            "initial": _spread(_words(case.initial) for case in cases),
            "question": _spread(_words(case.question) for case in cases),
            "options": _spread(sum(map(_words, case.options.values())) for case in cases),
            "facts": _spread(sum(map(_words, case.facts)) for case in cases),
        },
    }


def _turns(rows: Sequence[SftRow]) -> dict:
    return {
        "turns": len(rows),
        "consultations": len({row.messages[1]["content"] for row in rows}),
        "turn_of_consultation": _counts(len(row.messages) // 2 for row in rows),
        "words": {
            "prompt": _spread(sum(_words(m["content"]) for m in row.messages) for row in rows),
            "response": _spread(_words(row.response) for row in rows),
        },
    }


def _answers(cases: Sequence[Case]) -> dict[str, int]:
    """How often each label is right, of all labels that a case offers."""
    right = Counter(case.answer for case in cases)
    labels = sorted({label for case in cases for label in case.options})
    return {label: right[label] for label in labels}


def _counts(values: Iterable) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}


def _spread(values: Iterable[int]) -> dict[str, float]:
    """Smallest, median, mean (two decimals), largest, and how many are zero."""
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
