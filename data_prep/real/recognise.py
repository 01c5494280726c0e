"""Which format a raw file has, and what its cases' source is called."""

from pathlib import Path
from types import ModuleType

from data_prep.real import atpo_dialogues, atpo_sft, mediq
from data_prep.real.rows import BadRow, parse, read_lines
from pcqc.errors import UserError

FORMATS = {module.NAME: module for module in (atpo_dialogues, atpo_sft, mediq)}
# Names under which the files are published -> source of their cases; others go by their own name.
SOURCES = {
    "medqa_test_dataset": "medqa",
    "aie_test_dataset": "medicalexam",
    "mcqa_test_dataset": "medmcqa",
    "merged_train_dataset": "atpo_rl",
    "rl_train_dataset": "atpo_rl",
    "sft_training_data": "atpo_sft",
    "sft_train_data": "atpo_sft",
    "all_craft_md": "icraft_md",
    "medqa_dev_convo": "mediq_dev",
    "all_dev_good": "mediq_dev",
    "medqa_test_convo": "mediq_test",
}


def recognise(raw: Path, name: str | None = None) -> ModuleType:
    """The module that converts a file: the one named, or the one whose fields its first row has."""
    if name is not None:
        if name not in FORMATS:
            raise UserError(f"no format '{name}'; known are {', '.join(FORMATS)}")
        return FORMATS[name]
    number, line = next(read_lines(raw), (0, b""))
    if not number:
        raise UserError(f"{raw}: holds no rows; fetch the file again or name another")
    try:
        fields = set(parse(line))
    except BadRow as problem:
        raise UserError(f"{raw}, line {number}: {problem}; mend the file") from None
    for module in FORMATS.values():
        if fields >= module.FIELDS:
            return module
    raise UserError(
        f"{raw}: its first row is of no known format; name one with --format: {', '.join(FORMATS)}"
    )


def source_name(raw: Path) -> str:
    """Source of a raw file's cases, by the name of the file."""
    return SOURCES.get(raw.stem, raw.stem)
