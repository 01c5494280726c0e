"""Whether a run would be made again, and why; and its author's word that it need not be."""

import os
import time
from collections.abc import Iterable
from dataclasses import asdict, replace

from pcqc.errors import UserError
from pcqc.jobs.select import run_manifest
from pcqc.study import Study
from pcqc.study.job_outputs import JobOutput, job_output, steps
from pcqc.study.receipts import Receipt
from pcqc.system.files import read_json, sha256_file, write_json

ACTIONS = {
    "clinic": "the clinic's cases",
    "pretrain": "the base model",
    "models": "the pretrained models",
    "sft": "Shared SFT",
    "train": "training",
    "select": "the choice of a checkpoint",
    "evaluate": "evaluation",
    "continuation": "the continuation study",
    "grounding": "the judgement of its answers",
}


def explain(study: Study, method: str, run: str) -> str:
    """A run's seed, fingerprint and totals, and of each job on its way whether it would run again.

    Raises:
        UserError: the run has not been made.
    """
    study.require(method, run)
    way = list(steps(study, method, run))
    if not any(one.manifest.exists() or one.receipt_path.exists() for one in way if one.run):
        raise UserError(
            f"{study.name} has no {method} run {run} yet; make it with "
            f"`snakemake --cores all {method} --config study={study.name}`"
        )
    lines = [_heading(study, method, run)]
    again: list[str] = []
    for one in way:
        reasons, action = why(one), ACTIONS[one.job]
        verb = "would run again" if one.manifest.exists() else "would run"
        if not reasons and again:
            reasons = [f"after {again[-1]}"]
        if reasons:
            again += [action] if action not in again else []
            lines += [f"{action} {verb}: {reason}" for reason in reasons]
        elif (found := one.receipt()) and found.accepted:
            last = found.accepted[-1]
            lines.append(f"{action} stands, accepted {last['when']}: {last['because']}")
    return "\n".join(lines if again else [*lines, "nothing would run again"])


def why(one: JobOutput) -> list[str]:
    """Why a job would run again, a clause each; nothing where its result stands."""
    if not one.manifest.exists():
        return ["it has not finished" if one.receipt_path.exists() else "it has not been made"]
    found = one.receipt()
    if found is None:
        return ["no receipt says what it was made from"]
    if found.holds_for(one.today):
        return []
    return found.made_from.changes(one.today)


def accept(study: Study, method: str, run: str, because: str) -> list[str]:
    """Declare a run valid as it is, and the models and cases that it rests on.

    The reason is recorded in every receipt, and in the manifests of training and evaluation. The
    latter is mirrored again, so that the report says it.

    Returns:
        What was accepted, a line each.

    Raises:
        UserError: no reason, a run that is not made, or one of its files is altered.
    """
    study.require(method, run)
    if not because.strip():
        raise UserError('say why the run is still valid: --because "..."')
    said = []
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    # All or nothing: what is refused is refused before anything is recorded.
    for one, reasons in [(one, why(one)) for one in _made(steps(study, method, run))]:
        if reasons:
            entry = {"when": when, "because": because, "changes": reasons}
            _accept(one, entry)
            said.append(f"{ACTIONS[one.job]} accepted: {'; '.join(reasons)}")
    if said:
        evaluation = job_output(study, "evaluate", method, run)
        entry = {"when": when, "because": because, "changes": said}
        _in_manifest(evaluation, evaluation.require(), entry).write()
    return said or ["nothing to accept: nothing would run again"]


def _made(jobs: Iterable[JobOutput]) -> list[JobOutput]:
    """Those that are made, unaltered; UserError where the run itself is not."""
    found = []
    for one in jobs:
        if one.manifest.exists():
            found.append(one)
            if receipt := one.receipt():
                receipt.check()
        elif one.job in ("train", "evaluate"):
            raise UserError(f"{one.manifest}: missing; only what is made can be accepted")
    return found


def _accept(one: JobOutput, entry: dict) -> None:
    """Record it in the receipt; in a run's manifest too, which keeps its age."""
    found = one.receipt()
    if found is None:
        # Made before there were receipts: its manifest says what is in it.
        one.finish([str(one.manifest.relative_to(one.receipt_path.parent))])
        found = one.receipt()
    found.check()
    if one.job == "train":
        before = os.stat(one.manifest)
        found = _in_manifest(one, found, entry)
        # To Snakemake an older file is no new input.
        os.utime(one.manifest, ns=(before.st_atime_ns, before.st_mtime_ns))
    accepted = [*found.accepted, {**entry, "made_from": asdict(one.today)}]
    replace(found, accepted=accepted).write()


def _in_manifest(one: JobOutput, found: Receipt, entry: dict) -> Receipt:
    """Add what was accepted to the manifest; the receipt that knows it, not yet written."""
    manifest = read_json(one.manifest)
    write_json(one.manifest, {**manifest, "accepted": [*manifest.get("accepted", []), entry]})
    name = one.manifest.name
    return replace(
        found,
        outputs={**found.outputs, name: sha256_file(one.manifest)},
        manifests={**found.manifests, name: one.manifest.read_text()},
    )


def _heading(study: Study, method: str, run: str) -> str:
    trained = next(one for one in steps(study, method, run) if one.run)
    line = f"{study.name} {method} run {run}: seed {study.seed(run)}"
    if trained.job != "train" or not trained.manifest.exists():
        return line
    manifest = run_manifest(study, method, run)
    totals, ended = manifest["totals"], manifest.get("ended", "all updates")
    why_ended = "" if ended == "all updates" else f" of {study.method(method).updates}, {ended}"
    return (
        f"{line}, {manifest['updates']} updates{why_ended}\n"
        f"fingerprint {manifest['fingerprint']}, commit {manifest['git_commit']}\n"
        f"{totals['trajectories']} complete consultations, "
        f"{totals['device_seconds'] / 3600:.3f} device-hours"
    )
