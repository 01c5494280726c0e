"""The workflow killed a hundred times: half at random moments, half as a file appears."""

import os
import random
import subprocess
import time

from kills import WAIT, essence, kill, start, unstarted

KILLS = 100


def files(folder):
    """Names of all files below a folder, temporary ones among them."""
    return {os.path.join(base, name) for base, _, names in os.walk(folder) for name in names}


def killed_at(process, seconds):
    """Whether the process still ran after so many seconds; it is killed then."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        return True
    return False


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
        time.sleep(0.002)
    return False


def test_a_hundred_kills_of_the_workflow_change_no_byte(mini, tmp_path):
    """Each kill takes the whole process group; each rerun is `make results`."""
    expected = essence(mini.results)
    rng, kills, passes = random.Random(0), 0, 0
    place = unstarted(mini, tmp_path / "pass-0")
    while kills < KILLS or not (place.results / "report.html").exists():
        process = start(place, place.workflow())
        if kills >= KILLS:
            process.wait(WAIT * 5)
        elif (
            killed_on(process, place.results, rng.randint(1, 40))
            if kills % 2
            else killed_at(process, rng.uniform(1, 25))
        ):
            kills += 1
            continue
        assert process.returncode == 0
        passes += 1
        assert essence(place.results) == expected
        if kills < KILLS:
            place = unstarted(mini, tmp_path / f"pass-{passes}")
    print(f"{kills} kills in {passes} passes")
