"""Selection of a run's checkpoint."""

from pcqc.config import Study
from pcqc.evaluation.selection import check_role, select
from pcqc.files import read_json, write_json
from pcqc.paths import Paths


def run_selection(study: Study, method: str, run: str, benchmark: str | None = None) -> None:
    """Choose the run's checkpoint on the development benchmark and write what was rejected."""
    paths = Paths.of(study)
    benchmark = benchmark or study.development
    if study.method(method).kind == "sft":
        choice = _shared_sft_choice(study, benchmark)
    else:
        manifest = read_json(paths.run(method, run) / "manifest.json")
        choice = select(study, benchmark, manifest["checkpoints"])
    write_json(paths.evaluation(method, run) / "selection.json", choice)


def _shared_sft_choice(study: Study, benchmark: str) -> dict:
    """Shared SFT is one checkpoint: there is nothing to reject."""
    check_role(study, benchmark)
    nothing = {"update": 0, "accuracy": None, "turns": None, "actor_tokens": None}
    return {"benchmark": benchmark, "criterion": "one", "selected": nothing, "rejected": []}
