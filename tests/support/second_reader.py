"""What a published row says, read a second time: shares no code with the converters."""

import ast
import re
import unicodedata
from typing import NamedTuple

from pcqc.cases.sft_rows import SftRow


class Row(NamedTuple):
    """What a case must have; `text` is the answer's."""

    initial: str
    question: str
    options: dict[str, str]
    label: str
    text: str
    facts: list[str]


def read(row: dict) -> Row:
    """A row of ATPO's dialogues, of MEDIQ, of DxBench, or of one's own cases."""
    if "disease" in row:
        return dxbench_row(row)
    if "prompt" in row:
        text = row["prompt"][-1]["content"]
        match = re.fullmatch(r"(.*)\nProblem: (.*)\nOptions: (.*)", text, re.DOTALL)
        options, truth = ast.literal_eval(match[3].strip()), row["ground_truth"]
        facts = row["extra_info"]["atomic_facts"]
        return Row(match[1], match[2], options, truth["answer"], truth["answer_info"], facts)
    question, options = row["question"], row["options"]
    if "case_id" in row:
        initial, label = row["initial"] if shows(row["initial"]) else "", row["answer"]
        return Row(initial, question, options, label, options[label], row["facts"])
    facts = as_lines(row["atomic_facts"] if "atomic_facts" in row else row["facts"])
    initial = row.get("initial_info") or next(iter(as_lines(row["context"])), "")
    return Row(initial, question, options, row["answer_idx"], row["answer"], facts)


def dxbench_row(row: dict) -> Row:
    """Symptoms told in one line, the others as facts; the first of equal candidates."""
    candidates = row["candidate_diseases"]
    folded = [seen(text) for text in candidates]
    kept = [text for i, text in enumerate(candidates) if folded[i] not in folded[:i]]
    options = {"ABCDEFGH"[i]: text for i, text in enumerate(kept)}
    answer = candidates[folded.index(seen(row["disease"]))]
    label = next(key for key, text in options.items() if text == answer)
    told = ", ".join(
        {"True": "", "False": "no "}[has] + text for text, has in row["explicit_symptoms"]
    )
    facts = [
        f"{text}: " + {"True": "yes", "False": "no"}[has] for text, has in row["implicit_symptoms"]
    ]
    return Row(told, "What is the most likely diagnosis?", options, label, row["disease"], facts)


def seen(text: str) -> str:
    """What a reader sees of a text: no characters that show nothing, no case, single spaces."""
    shown = "".join(each for each in text if each.isprintable() or each.isspace())
    return " ".join(shown.split()).casefold()


def shows(text: str) -> bool:
    """Whether a reader sees anything of a text; a mark or a control character alone is nothing."""
    kept = [c for c in text if c.isalnum() or unicodedata.category(c)[0] in "PS"]
    names = [unicodedata.name(c, "") for c in kept]
    return not all(re.search("HANGUL.*FILLER|BRAILLE PATTERN BLANK", name) for name in names)


def as_lines(value):
    """A list as it is, and one string as its lines that are not blank."""
    return [v for v in value.split("\n") if v.strip()] if isinstance(value, str) else value


def atpo_sft_row(row: SftRow) -> dict[str, str]:
    """The published texts of an SFT row, written anew."""
    messages = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in row.messages]
    prompt = "".join([*messages, "<|im_start|>assistant\n"])
    return {"prompt": prompt, "response": row.response + row.origin["end"]}
