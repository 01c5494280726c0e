"""Damages files of a finished study, one at a time, and asks what the workflow says."""

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from damage import DAMAGES, follow, swap
from kills import essence
from workplace import STUDY, Workplace

from pcqc.errors import UserError
from pcqc.jobs.check_results import prepare_to_run
from pcqc.results.graph import Jobs
from pcqc.results.manifest import MANIFEST, is_result, result_of, verify
from pcqc.study import load_study


def results(root: Path) -> list[Path]:
    """All files of a study's results, relative to them: links, locks and logs are none."""
    files = (p.relative_to(root) for p in sorted(root.rglob("*")) if p.is_file())
    return [p for p in files if any(is_result(root / part) for part in p.parents if part.name)]


def kind(path: Path) -> tuple[str, int, str]:
    """What a file is, whichever method, run, recipe or update it is of."""
    shown = path.parts[0] in ("report", "tracking")
    name = "".join(path.suffixes) if shown and path.name != MANIFEST else path.name
    return path.parts[0], len(path.parts), re.sub(r"\d+", "#", name)


def of_each_kind(files: Sequence[Path], rng: random.Random) -> list[Path]:
    """One file of each kind."""
    kinds: dict[tuple, list[Path]] = {}
    for name in files:
        kinds.setdefault(kind(name), []).append(name)
    return [rng.choice(of_kind) for of_kind in kinds.values()]


def _partner(path: Path, files: Sequence[Path], root: Path) -> Path | None:
    """Another file of the same kind with other contents, if there is one."""
    content = (root / path).read_bytes()
    same = [p for p in files if p != path and kind(p) == kind(path)]
    return next((p for p in same if (root / p).read_bytes() != content), None)


def _refusal(folder: Path) -> str | None:
    """What is said of a result before the workflow plans anything; None where it goes on."""
    try:
        verify(folder)
    except UserError as error:
        return str(error)
    return None


def sweep(place: Workplace, files: Sequence[Path], kept: Path) -> None:
    """Damage each file of a finished study in every way: each must be refused with a remedy.

    Run with the study's folder as the working directory.

    Args:
        place: whose results are damaged, and put back.
        files: which of them, relative to the results.
        kept: a file to keep each of them in.
    """
    study, root = load_study(STUDY), place.results
    everything, jobs = results(root), Jobs(study)
    # The workflow checks these before it starts.
    checked = {job.path.resolve() for job in jobs.all()}
    prepare_to_run(study)
    for name in files:
        path, other = root / name, _partner(name, everything, root)
        folder = result_of(path)
        assert folder.resolve() in checked, name
        shutil.copy2(path, kept)
        for how, damage in DAMAGES.items():
            damage(path)
            if path.exists() and path.read_bytes() == kept.read_bytes():
                continue
            said = _refusal(folder)
            assert said, (str(name), how)
            assert re.fullmatch(r".*run the workflow again", said), said
            path.unlink(missing_ok=True)
            shutil.copy2(kept, path)
        if other:
            swap(path, root / other)
            assert _refusal(folder), (str(name), "swapped")
            swap(path, root / other)
    prepare_to_run(study)


def leads_back(
    mini: Workplace, place: Workplace, names: Sequence[Path], how: str, aside: Path
) -> list[str]:
    """Damage files of a copy of the finished study, and do what is said until all is well.

    Returns:
        The error lines; none where the workflow made all good by itself.

    Raises:
        AssertionError: it ended well with other results, or badly without one clear line.
    """
    for name in names:
        DAMAGES[how](place.results / name)
    said: list[str] = []
    while line := _failure(place):
        said.append(line)
        assert len(said) < 4 * len(names), said
        assert follow(line, place.folder, aside)
    assert essence(place.results) == essence(mini.results), (how, said)
    return said


def _failure(place: Workplace) -> str:
    """The error line of the workflow; empty where it ends well."""
    done = place.run(place.workflow())
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said[-3000:]
    if done.returncode == 0:
        return ""
    (line,) = {line for line in said.splitlines() if line.startswith("pcqc: error: ")}
    return line
