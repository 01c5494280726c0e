"""Results that were superseded: kept under a name that says when and why, removed on demand alone.

`results/<study>/superseded/<UTC time>-<what>-<why>/` holds what was moved there, at the path that
it had below the study's results, and `superseded.json`:

    what        path of the folder or file, such as `runs/pcqc/A`
    job         what made it, such as `train pcqc A`
    set_aside   when, UTC
    why         list of reasons, such as `setting rl.learning_rate: 0.001 -> 0.002`
    fingerprint of what it was made from; None where no receipt says
    finished    whether the job had finished
"""

import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pcqc.errors import UserError
from pcqc.system.files import describe, read_json, write_json

DESCRIPTION = "superseded.json"


@dataclass(frozen=True)
class Superseded:
    """One entry; see the module."""

    path: Path
    what: str
    job: str
    set_aside: str
    why: list[str]
    fingerprint: str | None
    finished: bool

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())


def set_aside(
    root: Path,
    what: Path,
    paths: Sequence[Path],
    *,
    copies: Sequence[Path] = (),
    job: str,
    why: list[str],
    fingerprint: str | None,
    finished: bool,
) -> Path:
    """Move results to the superseded ones; the entry's folder.

    Args:
        root: the study's results.
        what: below it; the folder or file that is superseded.
        paths: what to move of it, where it exists.
        copies: what stays and belongs to it.
        job, why, fingerprint, finished: see the module.

    Raises:
        UserError: they cannot be moved.
    """
    what = what.relative_to(root)
    moment = time.gmtime()
    name = "-".join([time.strftime("%Y%m%dT%H%M%SZ", moment), *what.parts, _slug(why[0])])
    entry = _unused(root / "superseded" / name)
    described = {
        "what": str(what),
        "job": job,
        "set_aside": time.strftime("%Y-%m-%d %H:%M:%S UTC", moment),
        "why": why,
        "fingerprint": fingerprint,
        "finished": finished,
    }
    # Nobody sees an entry before it is described: others list entries meanwhile.
    hidden = entry.with_name(f".{entry.name}")
    write_json(hidden / DESCRIPTION, described)
    _move(hidden, entry)
    for path in paths:
        if path.exists():
            _move(path, entry / path.relative_to(root))
    for path in copies:
        if path.exists():
            shutil.copy2(path, entry / path.relative_to(root))
    return entry


def bring_back(root: Path, what: Path, fingerprint: str) -> bool:
    """Move back what was set aside from `what` and has this fingerprint, where there is such.

    An entry that holds nothing, since a kill came before its files, is passed over.
    """
    for entry in superseded(root):
        same = (entry.what, entry.fingerprint) == (str(what.relative_to(root)), fingerprint)
        if same and any(path.name != DESCRIPTION for path in entry.path.iterdir()):
            # Folders come before what they hold, and take it along.
            for path in sorted(entry.path.rglob("*")):
                target = root / path.relative_to(entry.path)
                if path.name != DESCRIPTION and path.exists() and not target.exists():
                    _move(path, target)
            remove([entry])
            return True
    return False


def superseded(root: Path) -> list[Superseded]:
    """All entries below a study's results, the oldest first.

    Raises:
        UserError: an entry has no proper description.
    """
    found = []
    for path in sorted((root / "superseded").glob("[!.]*/")):
        description = read_json(path / DESCRIPTION)
        fields = set(Superseded.__dataclass_fields__) - {"path"}
        if not isinstance(description, dict) or set(description) != fields:
            raise UserError(
                f"{path / DESCRIPTION}: does not describe a superseded result; "
                "move its folder out of the study's results"
            )
        found.append(Superseded(path, **description))
    return found


def listing(entries: Sequence[Superseded]) -> str:
    """The entries as lines to read, with what removing them would free."""
    lines = []
    for entry in entries:
        state = "" if entry.finished else ", unfinished"
        lines.append(f"{entry.path.name}  {_readable(entry.size)}{state}")
        lines += [f"    {reason}" for reason in entry.why[:5]]
        if len(entry.why) > 5:
            lines.append(f"    and {len(entry.why) - 5} more")
    total = _readable(sum(entry.size for entry in entries))
    count = f"{len(entries)} superseded result{'' if len(entries) == 1 else 's'}"
    return "\n".join([*lines, f"{count}, {total}"])


def remove(entries: Sequence[Superseded]) -> None:
    """Delete entries for good, and what an earlier call left that was stopped."""
    for entry in entries:
        try:
            # First its name: nobody finds it half deleted.
            os.rename(entry.path, _unused(entry.path.with_name(f".removed-{entry.path.name}")))
            for path in entry.path.parent.glob(".removed-*"):
                shutil.rmtree(path)
        except OSError as problem:
            raise UserError(f"cannot remove {entry.path}: {describe(problem)}") from problem


def chosen(entries: Sequence[Superseded], names: Sequence[str]) -> list[Superseded]:
    """The entries of these names, all for `all`; UserError for a name that is none."""
    if list(names) == ["all"]:
        return list(entries)
    by_name = {entry.path.name: entry for entry in entries}
    if unknown := [name for name in names if name not in by_name]:
        raise UserError(f"no superseded result '{unknown[0]}'; `pcqc superseded STUDY` lists them")
    return [by_name[name] for name in names]


def _move(path: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)
    except OSError as problem:
        raise UserError(f"cannot move {path} to {target}: {describe(problem)}") from problem


def _unused(path: Path) -> Path:
    """The path, with a number after it where it is taken."""
    number, found = 2, path
    while found.exists():
        found = path.with_name(f"{path.name}-{number}")
        number += 1
    return found


def _slug(reason: str) -> str:
    """A reason as part of a file's name: `setting rl.beta: 1 -> 2` -> `setting-rl.beta`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", reason.partition(":")[0]).strip("-")[:60]


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
