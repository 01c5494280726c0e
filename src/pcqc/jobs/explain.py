"""What a run was made from, and whether it would be made again."""

from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import read_json
from pcqc.paths import Paths


def explain(study: Study, method: str, run: str) -> str:
    """A run's seed, fingerprint, totals, and the settings that differ from today's study.

    Raises:
        UserError: the run has not been made.
    """
    path = Paths.of(study).run(method, run) / "manifest.json"
    study.require(method, run)
    if not path.is_file():
        raise UserError(f"{path}: no such run yet; make it with `snakemake --cores all {method}`")
    manifest = read_json(path)
    totals = manifest["totals"]
    lines = [
        f"{study.name} {method} run {run}: seed {manifest['seed']}, {manifest['updates']} updates",
        f"fingerprint {manifest['fingerprint']}, commit {manifest['git_commit']}",
        f"{totals['trajectories']} complete consultations, "
        f"{totals['device_seconds'] / 3600:.3f} device-hours",
    ]
    now = study.to_dict()
    now["methods"] = {method: now["methods"][method]}
    then, now = _flat(manifest["settings"]), _flat(now)
    changed = [k for k in sorted(then.keys() | now.keys()) if then.get(k) != now.get(k)]
    lines += [f"changed since: {k}: {then.get(k)} -> {now.get(k)}" for k in changed]
    return "\n".join(lines if changed else [*lines, "settings unchanged since"])


def _flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings as `a.b.c` -> value; lists and tuples alike."""
    if not isinstance(settings, dict):
        return {prefix: list(settings) if isinstance(settings, tuple) else settings}
    flat = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
