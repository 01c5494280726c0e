"""What training computed, in FLOPs, counted from the tokens that every update logs.

A count is the same on any machine. A prompt counts whole each time it is read, since what a cache
saves depends on the machine; attention over earlier tokens is left out. Two FLOPs per matrix
parameter and token are a forward pass, three passes an optimiser step (Kaplan et al. 2020).
"""

import pandas as pd

from pcqc_base.errors import UserError
from pcqc_base.settings import Method
from pcqc_gpu.planning.architecture import Architecture, architecture, update_passes
from pcqc_study.study_file import Study

COMPUTE = "compute"  # the column: FLOPs of a run so far
ROLES = ("actor", "patient", "scorer")
TRAINED = "tokens/trained"
# What it is counted from: tokens read in prompts and sampled by each role, tokens in the loss.
LOGGED = (*(f"{what}/{role}" for role in ROLES for what in ("read", "sampled")), TRAINED)


def with_compute(study: Study, updates: pd.DataFrame) -> pd.DataFrame:
    """The rows of updates with the column `compute`, as far as they have what it is counted from.

    Args:
        study: whose models' shapes count.
        updates: one row per (method, run, kind, update).
    """
    if not {"read/actor", "sampled/actor", "read/patient"} <= set(updates):
        return updates
    if study.servers.chats:  # of models whose shape nobody knows, and counted in characters
        return updates
    try:
        shapes = {role: architecture(study, role)[1] for role in ROLES}
    except UserError:  # a model whose shape nobody knows
        return updates
    rows = updates[(updates["kind"] == "update") & updates["method"].isin(study.methods)]
    parts = [
        _flops(study.method(method), shapes, of_run.sort_values("update")).cumsum()
        for (method, _), of_run in rows.groupby(["method", "run"], sort=False)
    ]
    return updates.assign(**{COMPUTE: pd.concat(parts)}) if parts else updates


def _flops(method: Method, shapes: dict[str, Architecture], rows: pd.DataFrame) -> pd.Series:
    """FLOPs of each update; unknown where the actor's tokens are.

    Only the actor's tokens are always logged: without question credit nothing is scored, and while
    ATPO's critic learns alone, no token is in the policy's loss.
    """
    tokens = rows.reindex(columns=LOGGED).fillna(dict.fromkeys(LOGGED[2:], 0.0))
    total = pd.Series(0.0, index=rows.index)
    for role, shape in shapes.items():
        read, sampled = tokens[f"read/{role}"], tokens[f"sampled/{role}"]
        total += shape.forward_flops(read + sampled, 0, sampled)
    actor, trained = shapes["actor"], tokens[TRAINED]
    total += update_passes(method, recomputed=False) * actor.forward_flops(trained, 0, trained)
    if "critic" in method.needs:  # it reads each state that the actor reads, and learns
        total += actor.forward_flops(tokens["read/actor"] + 3 * trained, 0, 0)
    return total
