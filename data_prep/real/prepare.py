"""Converted cases to those of a study: what fits the protocol, how many, what they teach."""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.real.conversations import write_conversations
from data_prep.real.convert import NOTHING_TO_ASK, Exclusion, write_exclusions
from data_prep.real.instruction import TRAINING, published_instruction, published_otherwise
from data_prep.real.templates import compare_renderings
from pcqc.cases import Case, read_cases, write_cases
from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import read_jsonl, sha256_file, write_atomic, write_json, write_jsonl
from pcqc.instruction import read_instruction
from pcqc.models import load_tokenizer
from pcqc.paths import Paths
from pcqc.protocol import ChatFormat
from pcqc.seeds import generator
from pcqc.settings import nearest
from pcqc.sft_rows import SftRow, read_sft_rows

INSTRUCTION, MANIFEST = "instruction", "manifest"  # sets of no cases


@dataclass
class _Selection:
    """Cases that are used, and those that are not, with the reason of each."""

    kept: list[Case] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)


def prepare(study: Study, only: str | None = None) -> list[str]:
    """Write the cases that a real study reads: training, benchmarks, SFT conversations.

    First comes the actor's system message, where the settings leave it to the published cases.

    A case on which no consultation can be held is excluded, and so is one whose opening prompt is
    longer than `protocol.prompt_tokens` in the actor's own tokens. Each stands with its reason in
    its set's `.exclusions.csv` and is counted in the manifest.

    Args:
        study: whose published files have been converted.
        only: one set, `train` or a benchmark, so that a new benchmark leaves the others alone;
            `instruction`, the system message; or `manifest`, which sums the sets up. Everything
            where not given.

    Returns:
        What a reader should know, a line each.

    Raises:
        UserError: an unknown set, a converted file with bad rows, a set with no case left, or no
            one system message to take.
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
    return [f"the actor's system message is that of {name}, {len(text):,} characters"]


def _prepare_set(study: Study, name: str) -> list[str]:
    paths, training = Paths.of(study), name == TRAINING
    files = [n for n in study.raw_files if n.startswith(TRAINING)] if training else [name]
    most = study.data.training_cases if training else study.benchmarks[name].cases
    chat = ChatFormat(load_tokenizer(paths.model("base")), read_instruction(study))
    cases = [c for n in files for c in read_cases(paths.converted(n), as_published=True)]
    selection = _select(cases, chat, study.protocol.prompt_tokens)
    if not selection.kept:
        raise UserError(
            f"{paths.converted(files[0])}: none of its cases fits; raise protocol.prompt_tokens"
        )
    _keep(selection, most, study.data.seed, name)
    notes = []
    if training:
        sft = _sft_rows(study, selection, chat.instruction)
        agreement = compare_renderings(chat, sft, study.protocol.earlier_thinking)
        notes = agreement.notes
        write_jsonl(paths.conversations, sft)
        write_json(paths.data / "templates.json", agreement.to_dict())
    write_cases(paths.cases(name), selection.kept)
    write_exclusions(paths.excluded(name), selection.excluded)
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


def _keep(selection: _Selection, most: int | None, seed: int, name: str) -> None:
    """Keep so many of the cases, drawn at random and in their own order."""
    if most is not None and most < len(selection.kept):
        order = generator(seed, "subset", name).permutation(len(selection.kept))
        selection.kept = [selection.kept[i] for i in sorted(order[:most])]


def _sft_rows(study: Study, training: _Selection, instruction: str) -> list[dict]:
    """SFT conversations: the released ones, or written from cases, which then train nothing else.

    Of a released row the last response alone is trained on: the turns before it have rows of their
    own.
    """
    paths, data = Paths.of(study), study.data
    if data.sft:
        return [_released(row) for row in read_sft_rows(paths.converted("sft"))]
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


def _released(row: SftRow) -> dict:
    said = {"role": "assistant", "content": row.response}
    return {"case_id": row.id, "messages": [*row.messages, said], "train": "last"}


def _write_manifest(study: Study) -> list[str]:
    """Sum the sets up: digests, numbers of rows, exclusions of all sets in one file."""
    paths, sets = Paths.of(study), [TRAINING, *study.benchmarks]
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
            "sft": "released" if study.data.sft else "written by data_prep.real.conversations",
        },
    )
    return [
        f"{name} was published with another system message than the actor's"
        for name in instruction["published_otherwise"]
    ]


def _describe_instruction(study: Study) -> dict[str, str | list[str]]:
    """Where the actor's system message is from, its digest, and sets published with another."""
    given, text = study.protocol.instruction, read_instruction(study)
    return {
        "from": "protocol.instruction" if given is not None else published_instruction(study)[0],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "published_otherwise": published_otherwise(study, text),
    }


def _read_exclusions(path: Path) -> list[Exclusion]:
    with open(path, newline="", encoding="utf-8") as file:
        return [Exclusion(**{**row, "row": int(row["row"])}) for row in csv.DictReader(file)]


def _counts(excluded: Sequence[Exclusion]) -> dict[str, int]:
    """Excluded cases by what is wrong with them."""
    empty = sum(row.reason == NOTHING_TO_ASK for row in excluded)
    return {"nothing to ask": empty, "prompt too long": len(excluded) - empty}
