"""Files of the overlap audit: counts as in the paper (app:data_overlap), and pairs to read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_prep.overlap import KINDS, MEASURES, Pair, Prompt, find_overlap, read_prompts
from pcqc_base.errors import UserError
from pcqc_base.system.files import csv_text, no_formula, sha256_file, write_atomic, write_json
from pcqc_base.system.manifest import checked

if TYPE_CHECKING:
    from pcqc_base.task import Task

ALL = "all training data"
NamedFiles = Sequence[tuple[str, Path]]


def run(task: "Task") -> None:
    """Audit what a study's training and evaluation cases share."""
    training, evaluation = (
        [(name, checked(task.inputs[name])) for name in names]
        for names in (task.settings.training, task.settings.evaluation)
    )
    audit(training, evaluation, task.folder)


def audit(training: NamedFiles, evaluation: NamedFiles, to: Path) -> list[dict[str, str | int]]:
    """Compare every evaluation set with every training set; write the audit's files.

    - `counts.csv`: the rows returned.
    - `pairs.csv`: every overlapping pair, with its cosines and both texts.
    - `inputs.json`: the files compared, by digest, and the thresholds.

    Args:
        training: names and files of cases or of SFT rows.
        evaluation: names and files of cases.
        to: folder of the audit's files.

    Returns:
        One row per evaluation and training set (and all training together, where there are
        several): numbers of prompts, and of evaluation cases that each kind of overlap involves.

    Raises:
        UserError: a duplicate name, or a file with neither cases nor SFT rows.
    """
    names = [name for name, _ in (*training, *evaluation)]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two sets are named '{min(repeated)}'; name one of them NAME=FILE")
    sets = {name: read_prompts(name, path) for name, path in (*training, *evaluation)}
    trained = [prompt for name, _ in training for prompt in sets[name]]
    evaluated = [prompt for name, _ in evaluation for prompt in sets[name]]
    pairs = find_overlap(evaluated, trained)
    rows = _counts(sets, [n for n, _ in training], [n for n, _ in evaluation], pairs)
    write_atomic(to / "counts.csv", csv_text(rows[0], (row.values() for row in rows)))
    write_atomic(to / "pairs.csv", csv_text(_PAIR, map(_pair_row, pairs)))
    inputs = {
        name: {"file": path.name, "prompts": len(sets[name]), "sha256": sha256_file(path)}
        for name, path in (*training, *evaluation)
    }
    thresholds = {measure.name: measure.threshold for measure in MEASURES}
    write_json(to / "inputs.json", {"sets": inputs, "thresholds": thresholds})
    return rows


def _counts(
    sets: Mapping[str, Sequence[Prompt]],
    training: Sequence[str],
    evaluation: Sequence[str],
    pairs: Sequence[Pair],
) -> list[dict[str, str | int]]:
    together = [(ALL, set(training))] if len(training) > 1 else []
    rows = []
    for name in evaluation:
        for title, members in [*((t, {t}) for t in training), *together]:
            chosen = [
                pair
                for pair in pairs
                if pair.evaluation.set == name and pair.training.set in members
            ]
            rows.append(
                {
                    "evaluation": name,
                    "training": title,
                    "evaluation_cases": len(sets[name]),
                    "training_prompts": sum(len(sets[member]) for member in members),
                    **{kind: _involved(chosen, {kind}) for kind in KINDS},
                    "near_duplicates": _involved(chosen, {m.name for m in MEASURES}),
                }
            )
    return rows


def _involved(pairs: Iterable[Pair], kinds: set[str]) -> int:
    """Number of evaluation cases in a pair of one of the kinds."""
    return len({pair.evaluation.id for pair in pairs if pair.kinds & kinds})


_PAIR = (
    "evaluation",
    "evaluation_id",
    "training",
    "training_id",
    *KINDS,
    "evaluation_prompt",
    "training_prompt",
)


def _pair_row(pair: Pair) -> list[str]:
    left, right, kinds = pair.evaluation, pair.training, pair.kinds
    cells = [no_formula(text) for text in (left.set, left.id, right.set, right.id)]
    for kind in KINDS:
        if kind in pair.cosines:
            cells.append(f"{pair.cosines[kind]:.4f}")
        else:
            cells.append("yes" if kind in kinds else "")
    return [*cells, no_formula(left.full), no_formula(right.full)]
