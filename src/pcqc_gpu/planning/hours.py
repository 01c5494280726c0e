"""Hours of a run, from the seconds of its updates that `pcqc doctor --measure` measured."""

from pathlib import Path
from typing import Any

from pcqc_base.system.files import read_json
from pcqc_gpu.planning.storage import checkpoints
from pcqc_study.study_file import Study


def measured_file(study: Study, name: str) -> Path:
    """Where the measurement of a method's updates lies."""
    return study.results / "measured" / f"{name}.json"


def run_hours(study: Study, name: str) -> dict[str, Any] | None:
    """Hours of one training run of a method; None where its updates were not measured.

    Its start, all updates, checkpoints and saved states. The validation of checkpoints and the
    evaluation after training are not counted.

    Returns:
        `hours`, `device_hours` (times the allocated devices), and the `device` measured on.
    """
    path, method = measured_file(study, name), study.method(name)
    if not path.exists():
        return None
    remedy = f"measure it again: `pcqc doctor {study.name} --measure --method {name}`"
    record = read_json(path, dict[str, Any], remedy)
    seconds = record["measured"]
    states = -(-method.updates // study.rl_of(method).save_every)
    total = seconds["seconds/start"] + method.updates * seconds["seconds/whole"]
    total += checkpoints(study, method) * seconds["seconds/checkpoint"]
    total += states * seconds["seconds/state"]
    devices = study.placement.devices if study.placement else record["processes"]
    return {
        "hours": total / 3600,
        "device_hours": total / 3600 * devices,
        "device": record["device"],
    }
