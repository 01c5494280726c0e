"""Selects a study's cases from converted files, checks their number, and writes SFT data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from data_prep.conversations import write_conversations
from data_prep.convert import NOTHING_TO_ASK, Exclusion, write_exclusions
from data_prep.instruction import published_otherwise
from data_prep.template_check import compare_renderings
from pcqc.cases.case import Case, read_cases, write_cases
from pcqc.cases.chat import ChatFormat
from pcqc.cases.sft_rows import read_sft_rows
from pcqc.errors import UserError
from pcqc.jobs.instruction import instruction
from pcqc.models.folder import load_tokenizer
from pcqc.seeds import generator
from pcqc.system.files import write_json, write_jsonl
from pcqc.system.manifest import checked

if TYPE_CHECKING:
    from pcqc.settings import Data
    from pcqc.task import Task

TRAINING = "train"
CARD = "card "


def run(task: "Task") -> dict:
    """Write the cases of one set; of the training the SFT conversations too.

    Excluded are cases without facts or initial information, and cases whose opening prompt has more
    than `protocol.prompt_tokens` tokens. The set's `.exclusions.csv` gives the reason of each.

    Returns:
        `rows` of each file, numbers `excluded` by reason, files `published_otherwise` (with another
        system message than the actor's), and where the `sft` conversations are from.

    Raises:
        UserError: a converted file with bad rows, a set without usable cases or with another number
            of them than the study says.
    """
    (name,), settings, folder = task.arguments, task.settings, task.folder
    training = name == TRAINING
    files = [
        checked(path)
        for input_name, path in task.inputs.items()
        if input_name == name or (training and input_name.startswith(TRAINING))
    ]
    chat = ChatFormat(load_tokenizer(checked(task.inputs["tokenizer"])), instruction(task))
    cases = [case for file in files for case in read_cases(file, as_published=True)]
    kept, excluded = _usable(cases, chat, settings.protocol.prompt_tokens)
    if not kept:
        raise UserError(f"{files[0]}: none of its cases fits; raise protocol.prompt_tokens")
    kept = _keep(kept, len(excluded), settings.expected, settings.data, name)
    rows = {}
    if training:
        _check_sets(kept, settings.data.training_sets)
        sft, kept = _sft_rows(task, kept, chat.instruction)
        agreement = compare_renderings(chat, sft, settings.protocol.earlier_thinking)
        for note in agreement.notes:
            print(f"note: {note}")
        write_jsonl(folder / "sft.jsonl", sft)
        write_json(folder / "templates.json", agreement.to_dict())
        rows["sft.jsonl"] = len(sft)
    write_cases(folder / f"{name}.jsonl", kept)
    write_exclusions(folder / f"{name}.exclusions.csv", excluded)
    rows[f"{name}.jsonl"] = len(kept)
    cards = {
        n.removeprefix(CARD): checked(path) for n, path in task.inputs.items() if n.startswith(CARD)
    }
    otherwise = published_otherwise(cards, chat.instruction)
    for other in otherwise:
        print(f"note: {other} was published with another system message than the actor's")
    empty = sum(row.reason == NOTHING_TO_ASK for row in excluded)
    return {
        "rows": rows,
        "excluded": {"nothing to ask": empty, "prompt too long": len(excluded) - empty},
        "published_otherwise": otherwise,
        "sft": "released" if settings.data.sft else "written by data_prep.conversations",
    }


def _usable(
    cases: Sequence[Case], chat: ChatFormat, limit: int
) -> tuple[list[Case], list[Exclusion]]:
    """Usable cases, and the excluded ones with their reasons."""
    kept, excluded = [], []
    for case in cases:
        reason = None if case.consultable else NOTHING_TO_ASK
        tokens = 0 if reason else len(chat.open(case.public))
        if tokens > limit:
            reason = f"its prompt of {tokens} tokens exceeds protocol.prompt_tokens = {limit}"
        if reason:
            origin = case.origin
            excluded.append(
                Exclusion(str(origin["file"]), int(origin["row"]), case.case_id, reason)
            )
        else:
            kept.append(case)
    return kept, excluded


def _keep(
    cases: list[Case], excluded: int, expected: int | None, data: "Data", name: str
) -> list[Case]:
    """The cases, their number checked; of a subset so many, drawn at random, in file order."""
    usable = len(cases)
    if expected is None or usable == expected:
        return cases
    if usable < expected or not data.subset:
        raise UserError(
            f"'{name}' has {usable:,} usable cases ({excluded:,} more are excluded), not "
            f"{expected:,} as the study says; fetch the file again, or correct the number "
            "(data.subset: true draws that many of a larger file)"
        )
    order = generator(data.seed, "subset", name).permutation(usable)
    return [cases[i] for i in sorted(order[:expected])]


def _check_sets(cases: Sequence[Case], expected: Mapping[str, int]) -> None:
    """UserError if another number of training cases comes from a source than the study says."""
    actual = Counter(str(case.origin.get("set")) for case in cases)
    if expected and actual != expected:
        stated, counted = (
            ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
            for counts in (expected, actual)
        )
        raise UserError(
            f"the training cases are {counted}, not {stated} as data.training_sets says; fetch the "
            "file again, or correct the numbers"
        )


def _sft_rows(task: "Task", cases: list[Case], instruction: str) -> tuple[list[dict], list[Case]]:
    """SFT conversations and the RL cases; cases from which conversations are written leave those.

    Only the last response of a released row is trained on: earlier turns have rows of their own.
    """
    data = task.settings.data
    if data.sft:
        path = checked(task.inputs["sft"])
        rows = read_sft_rows(path)
        if data.conversations not in (None, len(rows)):
            raise UserError(
                f"{path}: has {len(rows):,} rows, not {data.conversations:,} as "
                "data.conversations says; fetch the file again, or correct the number"
            )
        released = [
            {
                "case_id": row.id,
                "messages": [*row.messages, {"role": "assistant", "content": row.response}],
                "train": "last",
            }
            for row in rows
        ]
        return released, cases
    rng = generator(data.seed, "sft conversations")
    order = rng.permutation(len(cases))
    taught = set(order[: data.sft_cases].tolist())
    if len(taught) == len(cases):
        raise UserError(
            f"data.sft_cases = {data.sft_cases} leaves none of {len(cases)} training cases "
            "for reinforcement learning; lower it"
        )
    teaching = [case for i, case in enumerate(cases) if i in taught]
    left = [case for i, case in enumerate(cases) if i not in taught]
    return write_conversations(teaching, instruction, data.sft_questions, rng), left
