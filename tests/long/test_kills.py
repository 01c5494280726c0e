"""The workflow killed forty times, each time as some file appears.

Each pass begins with the finished miniature study, of which a part is removed; the workflow makes
it again, through kills, until all is there and the same.
"""

import os
import random
import shutil
import time

from kills import WAIT, essence, kill, start

KILLS = 40
# What is removed below the study's results before a pass: whole results, since one of which a file
# is missing is refused.
PARTS = (
    (".",),
    ("data",),
    ("models",),
    ("runs/pcqc", "selection/pcqc", "evaluation/pcqc"),
    ("runs/atpo", "runs/grpo/B"),
    ("evaluation", "continuation"),
    ("tracking", "../mlflow.db", "../mlartifacts"),
    ("collected", "report", "published"),
)


def files(folder):
    """Names of all files below a folder, temporary ones among them."""
    return {os.path.join(base, name) for base, _, names in os.walk(folder) for name in names}


def killed_on(process, folder, events):
    """Whether the process made so many new files before it ended; it is killed at the last."""
    known, seen = files(folder), 0
    while process.poll() is None:
        now = files(folder)
        seen += len(now - known)
        known = now
        if seen >= events:
            kill(process)
            return True
        time.sleep(0.01)
    return False


def test_forty_kills_of_the_workflow_change_no_byte(mini, tmp_path):
    """Each kill takes the whole process group; each rerun is `make results`."""
    expected = essence(mini.results)
    rng, kills, passes, tries, made = random.Random(0), 0, 0, 0, True
    while kills < KILLS or not made:
        if made:
            place = mini.copied(tmp_path / f"pass-{passes}")
            for name in PARTS[passes % len(PARTS)]:
                unmade = place.results / name
                shutil.rmtree(unmade) if unmade.is_dir() else unmade.unlink()
            tries = 0
        tries += 1
        longer = 1 + tries // 5  # so that a job which outlives the first kills ends at last
        process = start(place, place.workflow())
        if kills >= KILLS:
            process.wait(WAIT * 5)
        elif killed_on(process, place.results, rng.randint(1, 20 * longer)):
            kills, made = kills + 1, False
            continue
        assert process.returncode == 0, process.last_output()
        passes, made = passes + 1, True
        assert essence(place.results) == expected
        shutil.rmtree(place.folder)
        print(f"{kills} kills in {passes} passes", flush=True)
