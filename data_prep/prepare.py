"""Selects a study's cases from converted files, checks their number, and writes SFT data."""

import csv
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.conversations import write_conversations
from data_prep.convert import NOTHING_TO_ASK, Exclusion, write_exclusions
from data_prep.instruction import TRAINING, published_instruction, published_otherwise
from data_prep.templates import compare_renderings
from pcqc.cases.case import Case, read_cases, write_cases
from pcqc.cases.chat import ChatFormat
from pcqc.cases.sft_rows import read_sft_rows
from pcqc.errors import UserError
from pcqc.models.folder import load_tokenizer
from pcqc.study import Data, Study
from pcqc.study.instruction import read_instruction
from pcqc.study.job_outputs import job_output
from pcqc.study.paths import Paths
from pcqc.study.settings import nearest
from pcqc.system.files import (
    read_bytes,
    read_jsonl,
    sha256_file,
    unquote_formula,
    write_atomic,
    write_json,
    write_jsonl,
)
from pcqc.system.seeds import generator

INSTRUCTION, MANIFEST = "instruction", "manifest"  # sets of no cases


@dataclass
class _Selection:
    """Usable cases, and the excluded ones with their reasons."""

    kept: list[Case] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)


def prepare(study: Study, only: str | None = None) -> list[str]:
    """Write the cases that a real study reads: training, benchmarks, SFT conversations.

    If the settings give no instruction, the actor's system message comes first.

    Excluded are cases without facts or initial information, and cases whose opening prompt has more
    than `protocol.prompt_tokens` tokens. The set's `.exclusions.csv` gives the reason of each.

    Args:
        study: its published files are converted.
        only: one set, `train` or a benchmark, so that a new benchmark leaves the others unchanged;
            `instruction`, the system message; or `manifest`, the summary. Everything by default.

    Returns:
        What a reader should know, a line each.

    Raises:
        UserError: an unknown set, a converted file with bad rows, a set without usable cases or
            with another number of them than the study says, or several system messages.
    """
    known = [TRAINING, *study.benchmarks, MANIFEST]
    if study.protocol.instruction is None:
        known.insert(0, INSTRUCTION)
    if only not in (None, *known):
        raise UserError(f"study '{study.name}' has no set '{only}'{nearest(only, known)}")
    steps = {INSTRUCTION: _write_instruction, MANIFEST: _write_manifest}
    notes = []
    for name in known if only is None else [only]:
        notes += steps[name](study) if name in steps else _prepare_set(study, name)
    return notes


def _write_instruction(study: Study) -> list[str]:
    name, text = published_instruction(study)
    write_atomic(Paths.of(study).instruction, text)
    job_output(study, "prepare", INSTRUCTION).vouch([Paths.of(study).instruction])
    return [f"the actor's system message is that of {name}, {len(text):,} characters"]


def _prepare_set(study: Study, name: str) -> list[str]:
    paths, training = Paths.of(study), name == TRAINING
    files = [n for n in study.raw_files if n.startswith(TRAINING)] if training else [name]
    most = study.data.training_cases if training else study.benchmarks[name].cases
    for converted in files:
        job_output(study, "convert", converted).require()
    chat = ChatFormat(load_tokenizer(paths.model("base")), read_instruction(study))
    cases = [c for n in files for c in read_cases(paths.converted(n), as_published=True)]
    selection = _select(cases, chat, study.protocol.prompt_tokens)
    if not selection.kept:
        raise UserError(
            f"{paths.converted(files[0])}: none of its cases fits; raise protocol.prompt_tokens"
        )
    _keep(selection, most, study.data, name)
    notes, written = [], [paths.cases(name), paths.excluded(name)]
    if training:
        _check_sets(selection.kept, study.data.training_sets)
        sft = _sft_rows(study, selection, chat.instruction)
        agreement = compare_renderings(chat, sft, study.protocol.earlier_thinking)
        notes = agreement.notes
        write_jsonl(paths.conversations, sft)
        write_json(paths.data / "templates.json", agreement.to_dict())
        written += [paths.conversations, paths.data / "templates.json"]
    write_cases(paths.cases(name), selection.kept)
    write_exclusions(paths.excluded(name), selection.excluded)
    job_output(study, "prepare", name).vouch(written)
    return notes


def _select(cases: Sequence[Case], chat: ChatFormat, limit: int) -> _Selection:
    selection = _Selection()
    for case in cases:
        reason = None if case.consultable else NOTHING_TO_ASK
        tokens = 0 if reason else len(chat.open(case.public))
        if tokens > limit:
            reason = f"its prompt of {tokens} tokens exceeds protocol.prompt_tokens = {limit}"
        if reason:
            origin = case.origin
            row = Exclusion(str(origin["file"]), int(origin["row"]), case.case_id, reason)
            selection.excluded.append(row)
        else:
            selection.kept.append(case)
    return selection


def _keep(selection: _Selection, expected: int | None, data: Data, name: str) -> None:
    """Check the number of cases; of a subset, keep so many, drawn at random, in file order."""
    usable, excluded = len(selection.kept), len(selection.excluded)
    if expected is None or usable == expected:
        return
    if usable < expected or not data.subset:
        raise UserError(
            f"'{name}' has {usable:,} usable cases ({excluded:,} more are excluded), not "
            f"{expected:,} as the study says; fetch the file again, or correct the number "
            "(data.subset: true draws that many of a larger file)"
        )
    order = generator(data.seed, "subset", name).permutation(usable)
    selection.kept = [selection.kept[i] for i in sorted(order[:expected])]


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


def _sft_rows(study: Study, training: _Selection, instruction: str) -> list[dict]:
    """SFT conversations: the released ones, or written from cases, which then leave the RL cases.

    Only the last response of a released row is trained on: earlier turns have rows of their own.
    """
    paths, data = Paths.of(study), study.data
    if data.sft:
        job_output(study, "convert", "sft").require()
        rows = read_sft_rows(paths.converted("sft"))
        if data.conversations not in (None, len(rows)):
            raise UserError(
                f"{paths.converted('sft')}: has {len(rows):,} rows, not {data.conversations:,} as "
                "data.conversations says; fetch the file again, or correct the number"
            )
        return [
            {
                "case_id": row.id,
                "messages": [*row.messages, {"role": "assistant", "content": row.response}],
                "train": "last",
            }
            for row in rows
        ]
    rng = generator(data.seed, "sft conversations")
    order = rng.permutation(len(training.kept))
    taught = set(order[: data.sft_cases].tolist())
    if len(taught) == len(training.kept):
        raise UserError(
            f"data.sft_cases = {data.sft_cases} leaves none of {len(training.kept)} training cases "
            "for reinforcement learning; lower it"
        )
    cases = [case for i, case in enumerate(training.kept) if i in taught]
    training.kept = [case for i, case in enumerate(training.kept) if i not in taught]
    return write_conversations(cases, instruction, data.sft_questions, rng)


def _write_manifest(study: Study) -> list[str]:
    """Summarise the sets: digests, numbers of rows, exclusions of all sets in one file."""
    paths, sets = Paths.of(study), [TRAINING, *study.benchmarks]
    for name in sets:
        job_output(study, "prepare", name).require()
    instruction = _describe_instruction(study)
    excluded = {name: _read_exclusions(paths.excluded(name)) for name in sets}
    write_exclusions(
        paths.data / "exclusions.csv", (row for name in sets for row in excluded[name])
    )
    files = [*(paths.cases(name) for name in sets), paths.conversations]
    write_json(
        paths.data / "manifest.json",
        {
            "files": {
                file.name: {"rows": sum(1 for _ in read_jsonl(file)), "sha256": sha256_file(file)}
                for file in files
            },
            "excluded": {name: _counts(rows) for name, rows in excluded.items()},
            "absent": study.absent,
            "instruction": instruction,
            "sft": "released" if study.data.sft else "written by data_prep.conversations",
        },
    )
    written = [paths.data / "manifest.json", paths.data / "exclusions.csv"]
    job_output(study, "prepare", MANIFEST).vouch(written)
    return [
        f"{name} was published with another system message than the actor's"
        for name in instruction["published_otherwise"]
    ]


def _describe_instruction(study: Study) -> dict[str, str | list[str]]:
    """Source and digest of the actor's system message, and sets published with another one."""
    given, text = study.protocol.instruction, read_instruction(study)
    return {
        "from": "protocol.instruction" if given is not None else published_instruction(study)[0],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "published_otherwise": published_otherwise(study, text),
    }


def _read_exclusions(path: Path) -> list[Exclusion]:
    try:
        rows = csv.DictReader(read_bytes(path).decode().splitlines(keepends=True))
        texts = ({name: unquote_formula(cell) for name, cell in row.items()} for row in rows)
        return [Exclusion(**{**row, "row": int(row["row"])}) for row in texts]
    except (AttributeError, ValueError, TypeError, KeyError, csv.Error):
        raise UserError(f"{path}: not a list of exclusions; remove it and rerun") from None


def _counts(excluded: Sequence[Exclusion]) -> dict[str, int]:
    """Number of excluded cases by reason."""
    empty = sum(row.reason == NOTHING_TO_ASK for row in excluded)
    return {"nothing to ask": empty, "prompt too long": len(excluded) - empty}
