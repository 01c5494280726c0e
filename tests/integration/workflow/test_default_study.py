"""What `make results` would run."""

import re

from workplace import Workplace

# The paper's jobs, after those that draw the clinic's cases.
JOBS = {
    "clinic": 7,
    **{"convert": 6, "overlap": 1, "instruction": 1, "prepare": 5, "base": 1, "sft": 1},
    **{"train": 18, "select": 19, "evaluate": 19, "continue_candidates": 1, "ground_answers": 1},
    **{"mirror": 7, "collect": 1, "report": 1, "publish": 1},
}


def test_a_dry_run_of_the_default_lists_the_papers_jobs(tmp_path):
    place = Workplace(tmp_path / "fresh")
    done = place.run(place.workflow("--dry-run", study="clinic"))
    assert done.returncode == 0, done.stderr[-3000:]
    listed = re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    counts = {name: int(count) for name, count in listed}
    assert counts.pop("total") == sum(JOBS.values()) + counts.pop("all")
    assert counts == JOBS
