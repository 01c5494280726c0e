"""Converted cases to those of a study: what fits the protocol, how many, what they teach."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.real.conversations import write_conversations
from data_prep.real.convert import NOTHING_TO_ASK, Exclusion, write_exclusions
from data_prep.real.templates import compare_renderings
from pcqc.cases import Case, read_cases, write_cases
from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import sha256_file, write_json, write_jsonl
from pcqc.jobs.paths import Paths
from pcqc.jobs.setup import chat_format
from pcqc.protocol import ChatFormat
from pcqc.seeds import generator
from pcqc.sft_rows import SftRow, read_sft_rows


@dataclass
class _Selection:
    """Cases that are used, and those that are not, with the reason of each."""

    kept: list[Case] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)


def prepare(study: Study) -> None:
    """Write training cases, benchmarks and SFT conversations of a real study, and their manifest.

    A case on which no consultation can be held is excluded, and so is one whose opening prompt is
    longer than `protocol.prompt_tokens` in the actor's own tokens. Each stands in `exclusions.csv`
    with its reason and is counted in the manifest.

    Raises:
        UserError: a converted file with bad rows, or a set of which nothing is left.
    """
    paths, data = Paths.of(study), study.data
    chat = chat_format(study, paths.model("base"))
    limit = study.protocol.prompt_tokens

    def chosen(name: str, files: Sequence[Path], most: int | None) -> _Selection:
        cases = [case for file in files for case in read_cases(file, as_published=True)]
        return _keep(_select(cases, chat, limit), most, data.seed, name)

    training = [paths.converted(name) for name in study.raw_files if name.startswith("train")]
    sets = {"train": chosen("train", training, data.training_cases)}
    for name, benchmark in study.benchmarks.items():
        sets[name] = chosen(name, [paths.converted(name)], benchmark.cases)
    for name, selection in sets.items():
        if not selection.kept:
            raise UserError(
                f"{paths.converted(name)}: none of its cases fits; raise protocol.prompt_tokens"
            )
    sft = _sft_rows(study, sets["train"])
    for name, selection in sets.items():
        write_cases(paths.data / f"{name}.jsonl", selection.kept)
    write_jsonl(paths.conversations, sft)
    agreement = compare_renderings(chat, sft, study.protocol.earlier_thinking)
    write_json(paths.data / "templates.json", agreement.to_dict())
    excluded = [row for selection in sets.values() for row in selection.excluded]
    write_exclusions(paths.data / "exclusions.csv", excluded)
    _write_manifest(study, sets, len(sft))


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


def _keep(selection: _Selection, most: int | None, seed: int, name: str) -> _Selection:
    """So many of the kept cases, drawn at random and in their own order."""
    if most is not None and most < len(selection.kept):
        order = generator(seed, "subset", name).permutation(len(selection.kept))
        selection.kept = [selection.kept[i] for i in sorted(order[:most])]
    return selection


def _sft_rows(study: Study, training: _Selection) -> list[dict]:
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
    return write_conversations(cases, study.protocol.instruction, data.sft_questions, rng)


def _released(row: SftRow) -> dict:
    said = {"role": "assistant", "content": row.response}
    return {"case_id": row.id, "messages": [*row.messages, said], "train": "last"}


def _write_manifest(study: Study, sets: dict[str, _Selection], conversations: int) -> None:
    paths = Paths.of(study)
    rows = {f"{name}.jsonl": len(selection.kept) for name, selection in sets.items()}
    rows["sft.jsonl"] = conversations
    files = {n: {"rows": r, "sha256": sha256_file(paths.data / n)} for n, r in rows.items()}
    write_json(
        paths.data / "manifest.json",
        {
            "files": files,
            "excluded": {n: _counts(selection) for n, selection in sets.items()},
            "absent": study.absent,
            "sft": "released" if study.data.sft else "written by data_prep.real.conversations",
        },
    )


def _counts(selection: _Selection) -> dict[str, int]:
    """Excluded cases by what is wrong with them."""
    empty = sum(row.reason == NOTHING_TO_ASK for row in selection.excluded)
    return {"nothing to ask": empty, "prompt too long": len(selection.excluded) - empty}
