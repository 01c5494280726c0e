"""What a study trains: courses of SFT, and methods."""

from pcqc_base.settings import Method
from pcqc_study.study_file import Study


def fine_tunings(study: Study) -> dict[str, str]:
    """Course of SFT -> the role whose weights it makes, in that role's number format.

    There is one, and the patient's own if the patient starts from other weights.
    """
    if study.starts_from("patient") == study.starts_from("actor"):
        return {"sft": "actor"}
    return {"sft": "actor", "patient sft": "patient"}


def trained(study: Study) -> dict[str, Method]:
    """Methods with runs of reinforcement learning that `snakemake all` makes, by name."""
    return {
        name: method
        for name, method in study.methods.items()
        if method.kind == "rl" and method.runs and not method.on_demand
    }
