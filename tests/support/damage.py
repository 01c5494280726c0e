"""Files of a study that a test damages, one at a time, and what following an error line means."""

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kills import essence
from workplace import STUDY, Workplace

from pcqc.errors import UserError
from pcqc.study import Study, load_study
from pcqc.study.integrity import check_results

# A log is no result, a lock holds nothing, a review sheet is a person's to fill in, and the state
# of a finished job is read by none.
NO_RESULTS = {"logs", "locks", "review", "superseded", "state"}
# Where a name is a table's, a figure's or a method's, its ending alone says what it is.
ONE_FORMAT = ("tables", "figures", "tracking")


def results(root: Path) -> list[Path]:
    """All files of a study's results that may be damaged, relative to them."""
    files = (p.relative_to(root) for p in sorted(root.rglob("*")) if p.is_file())
    return [p for p in files if not NO_RESULTS & set(p.parts) and not p.name.endswith("lock")]


def kind(path: Path) -> tuple[str, int, str]:
    """What a file is, whichever method, run or update it is of."""
    name = "".join(path.suffixes) if path.parts[0] in ONE_FORMAT else path.name
    return path.parts[0], len(path.parts), re.sub(r"\d+", "#", name)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 1
    path.write_bytes(content or b"\0")


def _double(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines) or b"\n")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a byte flipped": _flip,
    "{}": lambda path: path.write_text("{}"),
    "a line doubled": _double,
}


def swap(one: Path, other: Path) -> None:
    """Exchange two files by renaming them: both keep their times."""
    aside = one.with_name(f"{one.name}.aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def partner(path: Path, files: list[Path], root: Path) -> Path | None:
    """Another file of the same kind with other contents, if there is one."""
    content = (root / path).read_bytes()
    return next(
        (
            p
            for p in files
            if p != path and kind(p) == kind(path) and (root / p).read_bytes() != content
        ),
        None,
    )


_STEP = re.compile(
    r"\b(?P<what>remove|move) (?P<paths>\S+(?: and \S+)*?)(?: away)?(?= \(| and run)"
)


def follow(line: str, folder: Path, aside: Path) -> Iterator[Path]:
    """Do what an error line says, and yield what it named; `run the workflow again` is left.

    Args:
        line: of the error.
        folder: that relative paths start from.
        aside: where things are moved to.
    """
    step = _STEP.search(line.rpartition(": ")[2]) or _STEP.search(line)
    assert step, f"no remedy in: {line}"
    for name in step["paths"].split(" and "):
        path = folder / name
        assert path.exists(), f"{line}: {name} is not there"
        if step["what"] == "move":
            aside.mkdir(parents=True, exist_ok=True)
            shutil.move(path, aside / f"{len(os.listdir(aside))}-{path.name}")
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        yield path


def refusal(study: Study) -> str | None:
    """What the workflow says before it plans anything; None where it goes on."""
    try:
        check_results(study)
    except UserError as error:
        return str(error)
    return None


def sweep(place: Workplace, files: Sequence[Path], kept: Path) -> Counter:
    """Damage each file of a finished study in every way; how often that was refused.

    What the workflow does not refuse must be a deleted output that it makes again. Run with the
    study's folder as the working directory.

    Args:
        place: whose results are damaged, and put back.
        files: which of them, relative to the results.
        kept: a file to keep each of them in.
    """
    study, root, counts = load_study(STUDY), place.results, Counter()
    remade, everything = declared(place), results(place.results)
    receipts = list(root.rglob("*receipt.json"))
    assert refusal(study) is None
    for name in files:
        path, other = root / name, partner(name, everything, root)
        shutil.copy2(path, kept)
        for how, damage in DAMAGES.items():
            damage(path)
            if path.exists() and path.read_bytes() == kept.read_bytes():
                continue
            said = refusal(study)
            counts["refused" if said else "made again"] += 1
            assert said or (how == "deleted" and str(name) in remade), (str(name), how)
            assert said is None or re.fullmatch(r".*run the workflow again", said), said
            path.unlink(missing_ok=True)
            shutil.copy2(kept, path)
        if other:
            swap(path, root / other)
            said = refusal(study)
            assert said, (str(name), "swapped")
            counts["refused"] += 1
            swap(path, root / other)
        # To the system the restored file is older than its receipt again.
        for receipt in receipts:
            os.utime(receipt, ns=(receipt.stat().st_atime_ns, receipt.stat().st_mtime_ns))
    assert refusal(study) is None
    return counts


def declared(place: Workplace) -> set[str]:
    """All outputs of the workflow's rules, relative to the study's results."""
    lines = place.run(place.workflow("--summary")).stdout.splitlines()
    prefix = f"results/{STUDY}/"
    return {line.split("\t")[0].removeprefix(prefix) for line in lines if line.startswith(prefix)}


def of_each_kind(files: Sequence[Path], rng: random.Random) -> list[Path]:
    """One file of each kind."""
    kinds: dict[tuple, list[Path]] = {}
    for name in files:
        kinds.setdefault(kind(name), []).append(name)
    return [rng.choice(of_kind) for of_kind in kinds.values()]


def leads_back(
    mini: Workplace, place: Workplace, names: Sequence[Path], how: str, aside: Path
) -> list[str]:
    """Damage files of a copy of the finished study, and do what is said until all is well.

    Run with the copy as the working directory: what the workflow says before it plans anything is
    asked without starting it.

    Returns:
        The error lines; none where the workflow made all good by itself.

    Raises:
        AssertionError: it ended well with other results, or badly without one clear line.
    """
    for name in names:
        DAMAGES[how](place.results / name)
    said: list[str] = []
    while line := refusal(load_study(STUDY)) or _failure(place):
        said.append(line)
        assert len(said) < 4 * len(names), said
        assert list(follow(line, place.folder, aside))
    # What was made without its receipt is set aside rather than deleted, beside the results.
    made = {k: v for k, v in essence(place.results).items() if not k.startswith("superseded/")}
    assert made == essence(mini.results), (how, said)
    assert set(results(place.results)) == set(results(mini.results)), (how, said)
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
