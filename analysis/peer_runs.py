"""The runs that the table `peers` compares.

Peers are made on demand and are in no collection. A large study's are made in parts, some today and
some on another day, so its archive keeps them: restored, they lie in `results/<study>/peers/`.
"""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from typing_extensions import TypedDict

from analysis.budgets import COSTS, START
from analysis.collected import METRICS, Collected, read_runs
from analysis.evaluated import evaluated_methods, load_evaluated
from pcqc.study import Study
from pcqc.study.paths import Paths
from pcqc.study.rates import RIVALS
from pcqc.study.shapes import CollectedRuns

# What the table reads of the updates.
CURVES = ("method", "run", "kind", "update", *METRICS, *COSTS, "best_questions")


class PeerRun(TypedDict):
    """An entry of `peers/runs.json`."""

    method: str
    run: str
    training: dict[str, Any] | None
    evaluation: dict[str, Any]


def restored(study: Study) -> Path:
    """Folder of what an archive kept of the peers, once it is restored."""
    return study.results / "peers"


def load_peer_runs(study: Study) -> Collected:
    """Shared SFT, the rivals and the peers, each of which every run is known, at every rate.

    A method's runs are those evaluated on this machine, else those restored from an archive, else
    those collected. All count as methods here, which `Collected` lists.
    """
    wanted = [START, *RIVALS, *_on_demand(study)]
    methods = {
        name: replace(method, role="method") if name in wanted else method
        for name, method in study.methods.items()
    }
    counted = replace(study, methods=methods)
    ready = [name for name in evaluated_methods(study) if name in wanted]
    parts = [load_evaluated(counted, ready)] if ready else []
    for folder, shape in (
        (restored(study), list[PeerRun]),
        (Paths.of(study).collected, CollectedRuns),
    ):
        rest = [name for name in wanted if name not in ready]
        if folder.exists() and (kept := _of(read_runs(counted, folder, shape), rest)):
            parts.append(kept)
            ready += kept.methods()
    return Collected(
        counted,
        pd.concat([part.predictions for part in parts]) if parts else pd.DataFrame(),
        pd.concat([part.updates for part in parts]) if parts else pd.DataFrame(),
        {key: record for part in parts for key, record in part.records.items()},
    ).only(ready)


def archived(study: Study) -> dict[str, bytes]:
    """Files of `peers/` as an archive keeps them; none without peers."""
    found = _of(load_peer_runs(study), _on_demand(study))
    if not found:
        return {}
    records = [{"method": m, "run": run, **found.records[m, run]} for m, run in found.records]
    return {
        "predictions.parquet": _parquet(found.predictions),
        "updates.parquet": _parquet(found.updates[[c for c in CURVES if c in found.updates]]),
        "runs.json": json.dumps(records, indent=1).encode(),
    }


def _on_demand(study: Study) -> list[str]:
    """Peers, and what is compared at other learning rates."""
    return [n for n, m in study.methods.items() if m.runs and m.role in ("peer", "rate")]


def _of(runs: Collected, methods: list[str]) -> Collected | None:
    """Those of some methods of which every run is known; None without any."""
    whole = [
        name
        for name in methods
        if runs.runs(name) and all((name, run) in runs.records for run in runs.runs(name))
    ]
    if not whole:
        return None
    predictions, updates = (
        frame[frame["method"].isin(whole)] for frame in (runs.predictions, runs.updates)
    )
    records = {key: record for key, record in runs.records.items() if key[0] in whole}
    return replace(runs, predictions=predictions, updates=updates, records=records).only(whole)


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
