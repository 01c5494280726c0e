"""Jobs that a test kills, and what must not depend on it.

Compared are weights, predictions, dialogues, candidate groups, selections, tables and figures.
Left out, by name, is what holds measured seconds (`times.jsonl`, times in manifests, the columns
of `collected/updates.parquet` that are seconds, the tables of training cost and of equal budgets,
the report) or identities that MLflow draws (`tracking/`, `published/`, `collected/runs.json`, the
report).
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from digests import digests
from workplace import Workplace

from pcqc_base.system.files import read_json

# The paper holds the table of training costs.
TIMED_FILES = ("times.jsonl", "runs.json", "report.html", "paper.tex", "paper.pdf")
TIMED_TABLES = ("training_cost", "equal_budgets", "claims_at_budgets", "cost_curves")
TIMED_COLUMNS = ("seconds/", "device_hours")
LEFT_OUT = ("logs", "tracking", "published", "state")
WAIT = 240  # seconds, for what takes five on an idle machine


def essence(results: Path) -> dict[str, object]:
    """What must not depend on kills: relative path -> digest, or content without seconds."""
    kept: dict[str, object] = {}
    for name, digest in digests(results).items():
        path = Path(name)
        if set(path.parts) & set(LEFT_OUT) or path.name in TIMED_FILES:
            continue
        if path.stem.startswith(TIMED_TABLES):
            continue
        kept[name] = digest
        # A result's manifest or a copy of it holds times; that of a checkpoint does not.
        manifest = read_json(results / name) if path.name == "manifest.json" else {}
        if "fingerprint" in manifest:
            totals = manifest.get("totals", {})
            counts = {key: n for key, n in totals.items() if key != "device_seconds"}
            kept[name] = (manifest["fingerprint"], sorted(manifest["files"]), counts)
        if path.name == "updates.parquet":
            table = pd.read_parquet(results / name)
            columns = [c for c in table.columns if not c.startswith(TIMED_COLUMNS)]
            kept[name] = table[columns].to_csv()
    return kept


def start(place: Workplace, command: list[str]) -> subprocess.Popen:
    """Start a command in a process group of its own."""
    process = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # A shell that starts the tests in the background ignores Ctrl-C, and its children with it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    parts: list[bytes] = []
    process.drain = threading.Thread(target=lambda: parts.extend(process.stdout), daemon=True)
    process.drain.start()
    process.last_output = lambda: b"".join(parts[-50:]).decode(errors="replace")
    return process


def kill(process: subprocess.Popen) -> None:
    """SIGKILL to the whole group of a process that `start` started; returns when all are gone."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.drain.join(WAIT)  # until none of its processes holds its output open
    assert not process.drain.is_alive()


def wait_until(reached: Callable[[], object], process: subprocess.Popen, seconds=WAIT) -> None:
    """Return as soon as it holds; fails where the process ends before, or time runs out."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert process.poll() is None, "ended before it came so far"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def unstarted(mini: Workplace, folder: Path) -> Workplace:
    """The code of the finished study, and nothing of what it made."""
    place = mini.copied(folder)
    for name in ("results", ".snakemake"):
        shutil.rmtree(place.folder / name)
    return place
