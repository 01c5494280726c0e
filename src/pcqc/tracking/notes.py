"""Descriptions in MLflow's interface: Markdown for the study, a method and a run."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc.study import Method, Study
from pcqc.study.training import QUESTION_CREDITS, TURN_CREDITS, UTILITIES
from pcqc.tracking.templates import render

if TYPE_CHECKING:
    from pcqc.tracking.finished import FinishedRun

NOTE = "mlflow.note.content"


def of_study(study: Study) -> str:
    """What the experiment holds and how to find one's way in it."""
    return render("study.md", study=study, clause=partial(clause, study))


def of_moved_study(study: Study, old: str) -> str:
    """What an experiment is that was set aside, because its artifacts are named by an old place."""
    return render("moved.md", study=study, old=old)


def of_findings(study: Study) -> str:
    """What the run with the study's report holds, and how to open it."""
    return render("findings.md", study=study, folder=study.results)


def of_method(study: Study, method: str, evaluations: list[dict]) -> str:
    """What the method does and how its runs came out, from the manifests of their evaluations."""
    settings = study.method(method)
    about = partial(clause, study)
    return render("method.md", study=study, method=settings, evaluations=evaluations, clause=about)


def of_run(run: "FinishedRun") -> str:
    """What this run is, how it came out, and how to read its questions and credits."""
    return _about(run, "run.md")


def of_model(run: "FinishedRun") -> str:
    """What the versions of a method's registered model are."""
    return _about(run, "model.md")


def of_checkpoint(run: "FinishedRun", folder: Path, name: str) -> str:
    """The card of a selected checkpoint: what it is, how good it is, and how to load it."""
    return _about(run, "card.md", folder=folder, name=name)


def _about(run: "FinishedRun", template: str, **more) -> str:
    """A template that speaks of a run, its study and its method."""
    method = run.study.method(run.method)
    about = partial(clause, run.study)
    return render(template, run=run, study=run.study, method=method, clause=about, **more)


def clause(study: Study, method: Method) -> str:
    """A method of a study in a clause."""
    updates = f"{'up to ' * study.may_level_off(method)}{method.updates} updates"
    if method.kind == "sft":
        return "supervised fine-tuning, the start of every other method"
    if method.tree:
        return (
            f"{updates} on a searched tree of up to {method.tree.budget} "
            "consultations a case, credited turn by turn by a critic"
        )
    text = f"{updates} on {method.terminal_group} consultations a case"
    if method.question_group:
        text += f" and {method.question_group} candidate responses a state"
    credits = TURN_CREDITS[method.turn_credit], QUESTION_CREDITS[method.question_credit]
    text += f"; credit: {'; '.join(credits)}"
    if method.question_credit != "none":
        text += f" {UTILITIES[method.question_utility]}"
        taught = "all candidates" if method.supervise == "all" else "executed questions only"
        text += f", and {taught} are supervised (beta {method.beta:g})"
    return text
