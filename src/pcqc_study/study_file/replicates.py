"""Studies that repeat another one on a base model of their own."""

from dataclasses import replace

from pcqc_base.errors import UserError
from pcqc_base.settings.models import Models
from pcqc_study.study_file.load import load_study
from pcqc_study.study_file.study import Study

# Settings in which a replicate may differ, beside the base model and the letters of methods' runs.
OWN = ("name", "title", "replicates", "tracking")


def replicates(study: Study) -> list[Study]:
    """The studies that repeat this one, read from their files.

    A variation of this study alone (`pcqc vary`) is a method without runs there.

    Raises:
        UserError: one has the same base model as another, or differs in more than that.
    """
    others = [load_study(name) for name in study.replicates]
    bases = {_base(study): study.name}
    for other in others:
        if unlike := sorted(_differences(study, other)):
            raise UserError(
                f"study '{other.name}' is no replicate of '{study.name}': {', '.join(unlike)} "
                f"differ; make it `like: {study.name}` with another base model"
            )
        if same := bases.get(_base(other)):
            raise UserError(
                f"study '{other.name}' has the base model of '{same}'; give it another one "
                "(models or scratch_model.seed)"
            )
        bases[_base(other)] = other.name
    without_runs = {name: replace(method, runs=()) for name, method in study.methods.items()}
    return [replace(other, methods={**without_runs, **other.methods}) for other in others]


def _base(study: Study) -> Models | int | None:
    """What a base model is known by: its published weights, or the seed it is trained with."""
    return study.models or (study.scratch_model.seed if study.scratch_model else None)


def _differences(study: Study, other: Study) -> list[str]:
    """Names of settings in which the two differ, and may not."""
    mine, theirs = study.to_dict(), other.to_dict()
    alone = mine["methods"].keys() ^ theirs["methods"].keys()
    for settings in (mine, theirs):
        for name in OWN:
            del settings[name]
        settings["scratch_model"] = {**(settings["scratch_model"] or {}), "seed": None}
        settings["models"] = None
        settings["methods"] = {
            name: {**method, "runs": bool(method["runs"])}
            for name, method in settings["methods"].items()
            if name not in alone or method["role"] != "ablation"  # each may have variations
        }
    return [name for name in mine if mine[name] != theirs[name]]
