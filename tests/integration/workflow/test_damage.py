"""A damaged file of a finished study is no result: one line says so, and its remedy works."""

import random
import re
import shutil
from pathlib import Path

import pytest
from damage import DAMAGES, follow
from kills import essence
from workplace import STUDY, Workplace

from pcqc_base.errors import UserError
from pcqc_base.system.manifest import MANIFEST, MARKER, is_result, result_of, verify
from pcqc_study.check_results import prepare_to_run
from pcqc_study.graph import Jobs
from pcqc_study.study_file import load_study


def results(root: Path) -> list[Path]:
    """All files of a study's results, relative to them: links, locks, logs and markers are none."""
    files = (p.relative_to(root) for p in sorted(root.rglob("*")) if p.is_file())
    files = (p for p in files if p.name != MARKER)
    return [p for p in files if any(is_result(root / part) for part in p.parents if part.name)]


def kind(path: Path) -> tuple[str, int, str]:
    """What a file is, whichever method, run, fingerprint or update it is of."""
    shown = path.parts[0] in ("report", "tracking")
    name = "".join(path.suffixes) if shown and path.name != MANIFEST else path.name
    return path.parts[0], len(path.parts), re.sub(r"\d+", "#", name)


def of_each_kind(root: Path, seed: str) -> list[Path]:
    """One result file of each kind."""
    kinds: dict[tuple, list[Path]] = {}
    for name in results(root):
        kinds.setdefault(kind(name), []).append(name)
    rng = random.Random(seed)
    return [rng.choice(of_kind) for of_kind in kinds.values()]


def failure(place: Workplace) -> str:
    """The error line of the workflow; empty where it ends well."""
    done = place.run(place.workflow())
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output[-3000:]
    if done.returncode == 0:
        return ""
    (line,) = {line for line in output.splitlines() if line.startswith("pcqc: error: ")}
    return line


def refusal(folder: Path) -> str:
    """What is said of a result before the workflow plans anything; empty where it goes on."""
    try:
        verify(folder)
    except UserError as error:
        return str(error)
    return ""


def swap(path: Path, other: Path) -> None:
    """Each of two files in the other's place."""
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize(
    "every",
    [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.long)],
)
def test_no_damaged_file_goes_unnoticed(copy, tmp_path, monkeypatch, every):
    """One file of each kind damaged in one way, or all in every way, is refused with a remedy."""
    monkeypatch.chdir(copy.folder)
    study, root, kept = load_study(STUDY), copy.results, tmp_path / "kept"
    checked = {job.path.resolve() for job in Jobs(study).all()}
    prepare_to_run(study)
    for number, name in enumerate(results(root) if every else of_each_kind(root, "each")):
        path, folder = root / name, result_of(root / name)
        assert folder.resolve() in checked, name
        shutil.copy2(path, kept)
        for how in DAMAGES if every else [list(DAMAGES)[number % len(DAMAGES)]]:
            DAMAGES[how](path)
            if path.exists() and path.read_bytes() == kept.read_bytes():
                continue
            assert re.search(r"run the workflow again(: `make [^`]+`)?$", refusal(folder)), (
                name,
                how,
            )
            shutil.copy2(kept, path)
        same = (root / other for other in results(root) if kind(other) == kind(name))
        if sibling := next((p for p in same if p.read_bytes() != path.read_bytes()), None):
            swap(path, sibling)
            assert refusal(folder), (name, "swapped")
            swap(path, sibling)
    prepare_to_run(study)


def test_a_result_without_its_manifest_is_refused_before_anything_runs(copy, monkeypatch):
    """Its marker is there: the workflow took it for made, and what reads it failed for ever."""
    monkeypatch.chdir(copy.folder)
    study = load_study(STUDY)
    job = Jobs(study).job("clinic", "train")
    job.manifest.unlink()
    with pytest.raises(UserError) as error:
        prepare_to_run(study)
    assert str(error.value) == (
        f"{job.manifest}: missing; move {job.path} away and run the workflow again"
    )


@pytest.mark.long
@pytest.mark.parametrize("how", DAMAGES)
def test_what_the_lines_say_leads_back_to_the_results(mini, copy, tmp_path, monkeypatch, how):
    """A file of every kind is damaged, and what is said is done until all is as before."""
    monkeypatch.chdir(copy.folder)
    names, lines = of_each_kind(mini.results, how), []
    for name in names:
        DAMAGES[how](copy.results / name)
    while line := failure(copy):
        lines.append(line)
        assert len(lines) < 4 * len(names), lines
        follow(line, copy.folder, tmp_path / "aside")
    assert lines
    assert essence(copy.results) == essence(mini.results), lines
