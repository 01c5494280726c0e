"""Selects a study's cases from converted files, checks their number, and writes SFT data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from data_prep.conversations import write_conversations
from data_prep.convert import write_exclusions
from data_prep.instruction import published_otherwise
from data_prep.limits import limits_of, short_enough, usable
from data_prep.sources import source_name
from data_prep.template_check import compare_renderings
from pcqc.cases.case import Case, read_cases, write_cases
from pcqc.cases.chat import ChatFormat
from pcqc.cases.sft_rows import SftRow, read_sft_rows
from pcqc.seeds import generator
from pcqc_base.errors import UserError
from pcqc_base.system.files import write_json, write_jsonl
from pcqc_base.system.manifest import checked

if TYPE_CHECKING:
    from pcqc_base.settings import Data
    from pcqc_base.task import Task

TRAINING = "train"
CARD = "card "


def run(task: "Task") -> dict:
    """Write the cases of one set; of the training the SFT conversations too.

    Excluded are cases without facts or initial information, cases whose opening prompt has more
    than `protocol.prompt_tokens` tokens, cases whose facts the patient's model cannot read beside a
    question and an answer, and SFT conversations in which the actor would read and write more than
    the protocol allows. The set's `.exclusions.csv` gives the reason of each.

    Returns:
        `rows` of each file, numbers `excluded` by reason, files `published_otherwise` (with another
        system message than the actor's), and where the `sft` conversations are from.

    Raises:
        UserError: a converted file with bad rows, an id in two files, a set without usable cases or
            with another number of them than the study says, or with fewer than an update takes, no
            conversation that is short enough; a chat template into which no consultation fits; a
            case of which the protocol allows more than the actor's model reads.
    """
    (name,), settings, folder = task.arguments, task.settings, task.folder
    # What needs no tokenizer first: a fault of a file ends the job before a model is there.
    if name == TRAINING:
        cases = _read_training(task)
        released = _released(task) if settings.data.sft else None
    else:
        cases = read_cases(checked(task.inputs[name]), as_published=True)
    limits = limits_of(task)
    chat = limits.actor
    kept, excluded, counts = usable(cases, limits)
    if not kept:
        first = excluded[0]
        raise UserError(
            f"'{name}': none of its {len(cases):,} cases can be used; the first, {first.file}, "
            f"line {first.row}: {first.reason}"
        )
    kept = _keep(kept, len(excluded), settings.expected, settings.data, name)
    rows = {}
    if name == TRAINING:
        _check_sets(kept, settings.data.training_sets)
        if released is None:
            sft, kept = _written(settings.data, kept, chat.instruction)
        else:
            sft = [_row_of(row) for row in released]
        _require_cases(task, len(kept), len(excluded), 0 if released else len(sft))
        sft, too_long = short_enough(sft, limits, settings.protocol.earlier_thinking)
        _write_sft(task, chat, sft)
        write_exclusions(folder / "sft.exclusions.csv", too_long)
        rows["sft.jsonl"], counts["conversation too long"] = len(sft), len(too_long)
    write_cases(folder / f"{name}.jsonl", kept)
    write_exclusions(folder / f"{name}.exclusions.csv", excluded)
    rows[f"{name}.jsonl"] = len(kept)
    cards = {
        n.removeprefix(CARD): checked(path) for n, path in task.inputs.items() if n.startswith(CARD)
    }
    otherwise = published_otherwise(cards, chat.instruction)
    for other in otherwise:
        print(f"note: {other} was published with another system message than the actor's")
    return {
        "rows": rows,
        "excluded": counts,
        "published_otherwise": otherwise,
        "sft": "released" if settings.data.sft else "written by data_prep.conversations",
    }


def _require_cases(task: "Task", kept: int, excluded: int, taught: int) -> None:
    """UserError if so few training cases are left that some update of the study lacks some."""
    least = task.where.least_cases
    if kept < least:
        files = ", ".join(str(raw.path) for raw in task.settings.data.training)
        taken = f"{taught:,} are taught (data.sft_cases), " if taught else ""
        raise UserError(
            f"{files}: {kept:,} cases are left to train on ({taken}{excluded:,} are excluded), and "
            f"an update takes {least:,}; lower rl.cases_per_update, or add cases"
        )


def _keep(
    cases: list[Case], excluded: int, expected: int | None, data: "Data", name: str
) -> list[Case]:
    """The cases, their number checked; of a subset so many, drawn at random, in file order."""
    count = len(cases)
    if expected is None or count == expected:
        return cases
    if count < expected or not data.subset:
        raise UserError(
            f"'{name}' has {count:,} usable cases ({excluded:,} more are excluded), not "
            f"{expected:,} as the study says; fetch the file again, or correct the number "
            "(data.subset: true draws that many of a larger file)"
        )
    order = generator(data.seed, "subset", name).permutation(count)
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


def _read_training(task: "Task") -> list[Case]:
    """The training cases. UserError if two files have a case of one id."""
    files = task.settings.data.training
    cases: list[Case] = []
    places: dict[str, str] = {}
    for number, raw in enumerate(files, start=1):
        name = f"{TRAINING}-{number}" if len(files) > 1 else TRAINING
        begins = source_name(raw.path)
        for case in read_cases(checked(task.inputs[name]), as_published=True):
            place, other = f"{raw.path}, line {case.origin['row']}", places.get(case.case_id)
            if other:
                given = case.source == begins and case.case_id.startswith(f"{begins}-")
                remedy = "ids begin with the file's name: give one of the files another"
                remedy = remedy if given else "rename or remove one of them"
                raise UserError(f"{place}: the case '{case.case_id}' is in {other}, too; {remedy}")
            places[case.case_id] = place
            cases.append(case)
    return cases


def _released(task: "Task") -> list[SftRow]:
    """The released SFT rows, their number checked."""
    path, expected = checked(task.inputs["sft"]), task.settings.data.conversations
    rows = read_sft_rows(path)
    if expected not in (None, len(rows)):
        raise UserError(
            f"{path}: has {len(rows):,} rows, not {expected:,} as data.conversations says; fetch "
            "the file again, or correct the number"
        )
    return rows


def _row_of(row: SftRow) -> dict:
    """A released row as one of SFT. Of a single turn, the earlier ones have rows of their own."""
    messages = [*row.messages, {"role": "assistant", "content": row.response}]
    return {"case_id": row.id, "messages": messages, "train": row.train, "origin": row.origin}


def _write_sft(task: "Task", chat: ChatFormat, rows: Sequence[dict]) -> None:
    """Write SFT rows, and how their states compare with the model's own template."""
    agreement = compare_renderings(chat, rows, task.settings.protocol.earlier_thinking)
    for note in agreement.notes:
        print(f"note: {note}")
    write_jsonl(task.folder / "sft.jsonl", rows)
    write_json(task.folder / "templates.json", agreement.to_dict())


def _written(data: "Data", cases: list[Case], instruction: str) -> tuple[list[dict], list[Case]]:
    """Conversations written from some of the cases, and the other cases."""
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
