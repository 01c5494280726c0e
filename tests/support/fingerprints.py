"""Prints the fingerprints of all trainings of some studies, by the code below a folder.

    python fingerprints.py FOLDER EDITS STUDY...

EDITS is a JSON file of edits, each a list of (file, old text, new text). One line of JSON is
printed for the code as it is and one after each edit alone, which is taken back.
"""

import json
import os
import sys
from pathlib import Path

import numpy  # noqa: F401 (imported once, before the processes part)
import pydantic  # noqa: F401
import yaml  # noqa: F401


def fingerprints(studies: list[str]) -> dict[str, str]:
    """`study job` -> short fingerprint, of every training, those on demand among them."""
    from pcqc_study.graph import Jobs
    from pcqc_study.study_file import load_study

    made = {}
    for name in studies:
        jobs = Jobs(load_study(name))
        for method, run in jobs.runs():
            if jobs.is_trained(method):
                job = jobs.job("train", method, run)
                made[f"{name} {job.name}"] = job.fingerprint.short
    return made


def in_a_process_of_its_own(studies: list[str]) -> None:
    """Print the fingerprints by modules that are imported anew."""
    sys.stdout.flush()
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        return
    print(json.dumps(fingerprints(studies)), flush=True)
    os._exit(0)


def main(folder: Path, edits: list[list[list[str]]], studies: list[str]) -> None:
    """Print a line of fingerprints for the code as it is, and for each edit."""
    in_a_process_of_its_own(studies)
    for edit in edits:
        before = {name: (folder / name).read_text() for name, _, _ in edit}
        for name, old, new in edit:
            assert old in before[name], f"{name}: {old}"
            (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
        in_a_process_of_its_own(studies)
        for name, text in before.items():
            (folder / name).write_text(text)


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # an edit within a second would be taken for the old text
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3:])
