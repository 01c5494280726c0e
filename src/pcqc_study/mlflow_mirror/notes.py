"""Descriptions in MLflow's interface, in Markdown: of the study, its methods, runs and models.

Markdown may hold HTML, and the interface loads its images: titles and words of settings are text.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pcqc_base.settings import Method
from pcqc_study import describe
from pcqc_study.mlflow_mirror import page
from pcqc_study.mlflow_mirror.finished import FinishedRun
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from mlflow.entities import RunInfo

NOTE = "mlflow.note.content"
REPORT = "Report, tables, figures, transcripts"  # name of the run that has them
SYNTHETIC = """
**The clinic is synthetic**: its cases come from a made-up world. No number here says anything about
medicine.
"""


def of_study(study: Study) -> str:
    """What the experiment holds and where to look."""
    methods = "\n".join(
        f"- **{plain(method.title)}** (`{name}`): {clause(study, method)}"
        for name, method in study.methods.items()
    )
    benchmarks = "\n".join(
        f"- {plain(benchmark.title)} (`{name}`): {benchmark.role.replace('_', ' ')}"
        for name, benchmark in study.benchmarks.items()
    )
    return f"""{plain(study.title)}: each method is a parent run, each of its seeds a child run.
{SYNTHETIC if study.synthetic else ""}
{methods}

Benchmarks; checkpoints are chosen on the development benchmark alone:

{benchmarks}

The report has the means over a method's runs. *Created* is when the training began; *Duration*
lasts until the end of the evaluation, waiting included. A run whose name begins with "superseded"
was replaced by a later run of the same method and seed (`superseded_by`); no table uses it. The run
"{REPORT}" has the results of the study among its *Artifacts*.
"""


def of_report(study: Study) -> str:
    """What the run with the study's report holds, and how to open it."""
    return f"""`report.html` opens with the conclusion of {plain(study.title)}; `tables/` and
`figures/` have its parts. `transcripts/` has every consultation, to filter and compare: download
the folder and open `index.html`, or open `{study.results}/transcripts/index.html` where the study
was run.
"""


def of_method(study: Study, method: str, experiment_id: str, runs: Mapping[str, str]) -> str:
    """What the method does, and where the page of each run is; `runs`: letter -> id in MLflow."""
    settings = study.method(method)
    pages = ", ".join(f"[{run}]({page.address(experiment_id, runs[run])})" for run in runs)
    return f"""**Its runs, each on one page**: {pages} ({plain(page.has(study))})

{plain(settings.title)}: {clause(study, settings)}. The numbers here are means over these runs.
"""


def of_run(run: FinishedRun, info: "RunInfo") -> str:
    """What this run is, and where its page and its consultations are."""
    study, method = run.study, run.study.method(run.method)
    checkpoint = "It is not trained by reinforcement learning: there is no checkpoint to choose."
    if run.training:
        checkpoint = (
            f"The checkpoint of update {run.evaluation['update']} of {run.training['updates']} was "
            f"chosen on {plain(study.benchmarks[study.development].title)}; "
            f"{len(run.selection['rejected'])} were rejected, for the reasons in "
            "`evaluation/selection.json`."
        )
    own = (info.experiment_id, info.run_id)
    whole, curves = page.address(*own), page.address(*own, "model-metrics")
    # Of a long description the interface shows the beginning alone.
    return f"""**[The run on one page]({whole})** ({plain(page.has(study))}). [Curves]({curves})

{plain(method.title)}, seed {run.study.seed(run.run)}: {clause(study, method)}.
{checkpoint}
{SYNTHETIC if study.synthetic else ""}
Whole consultations, where the study was run: `{run.transcripts}`
"""


def of_model(run: FinishedRun) -> str:
    """What the versions of a method's registered model are."""
    title, of = run.study.method(run.method).title, run.study.title
    return f"{plain(title)} of {plain(of)}: each version is the selected checkpoint of one run."


def of_checkpoint(run: FinishedRun, folder: str, name: str) -> str:
    """What a selected checkpoint is and how to load it."""
    return f"""{plain(run.title)}, update {run.evaluation["update"]}. For research on training
methods; not for medical use. Load it where the study was run:

    AutoModelForCausalLM.from_pretrained("{folder}")

    vllm serve {folder}

`mlflow artifacts download -u models:/{name}@{run.run}` prints the folder.
"""


def clause(study: Study, method: Method) -> str:
    """A method of a study in a clause."""
    words = plain(describe.words(method))
    if method.kind == "sft":
        return words
    return f"{'up to ' * study.may_level_off(method)}{method.updates} updates on {words}"


def plain(text: str) -> str:
    """The text with every sign of HTML and Markdown as a character reference."""
    return re.sub(r"[<>&\[\]!*_`~\\|#]", lambda sign: f"&#{ord(sign[0])};", text)
