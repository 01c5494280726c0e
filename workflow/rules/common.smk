# Settings, names of files, and fingerprints that every rule uses.

import os
import shlex
import sys
from pathlib import Path

# `analysis` and `data_prep` belong to the checkout and are not installed.
sys.path.insert(0, str(Path(workflow.basedir)))

import analysis.figures
import analysis.paper
import analysis.tables
from analysis import transcripts
from pcqc.study import digest, load_study, tracking_uri
from pcqc.study.rates import RIVALS
from pcqc.study.replicates import replicates
from pcqc.errors import UserError
from pcqc.system.files import hold
from pcqc.study.instruction import instruction_files
from pcqc.study.integrity import check_results, recipe
from pcqc.study.paths import Paths
from pcqc.study.job_outputs import job_output
from pcqc.study.provenance import inputs_fingerprint, source_fingerprint, study_fingerprint
from pcqc.study.settings import nearest
from pcqc.tracking.finished import published
from pcqc.tracking.prepare import forget_lost_store

# Where the published files of a real study lie; jobs inherit it.
if "data" in config:
    os.environ["PCQC_DATA"] = str(config["data"])

STUDY_ARGUMENT = str(config.get("study", "clinic"))
CONFIG_KEYS = ("study", "data", "launcher")
try:
    for key in config:
        if key not in CONFIG_KEYS:
            raise UserError(
                f"--config {key}: unknown key{nearest(key, CONFIG_KEYS)}; settings of a study are "
                "changed in its file"
            )
    STUDY = load_study(STUDY_ARGUMENT)
    # Once: each job starts with these rules too.
    if workflow.is_main_process:
        check_results(STUDY)
        forget_lost_store(STUDY)
    REPLICATES = replicates(STUDY)
except UserError as error:
    sys.exit(f"pcqc: error: {error}")

PATHS = Paths.of(STUDY)
# The same study on other base models, collected: what claims are judged on beside this one.
REPLICATED = [Paths.of(other).collected / "receipt.json" for other in REPLICATES]
RESULTS = STUDY.results
RUNNABLE = [name for name, method in STUDY.methods.items() if method.runs]
ON_DEMAND = [name for name in RUNNABLE if STUDY.methods[name].on_demand]
ATPO_ABLATIONS = [name for name in ON_DEMAND if STUDY.methods[name].method == "atpo"]
PEERS = [name for name in ON_DEMAND if STUDY.methods[name].role == "peer"]
RATES = [name for name in ON_DEMAND if STUDY.methods[name].role == "rate"]
METHODS = [name for name in RUNNABLE if name not in ON_DEMAND]
RL_METHODS = [name for name in RUNNABLE if STUDY.methods[name].kind == "rl"]


def receipt(job, method=None):
    """Receipt of a job that makes its results from those of others: a declared output."""
    return job_output(STUDY, job, method).receipt_path


TABLES = [*analysis.tables.TABLES.outputs(STUDY), receipt("tables")]
FIGURES = [*analysis.figures.FIGURES.outputs(STUDY), receipt("figures")]
PAPER = [*analysis.paper.outputs(STUDY), receipt("paper")]
REPORT = RESULTS / "report.html"
TRANSCRIPTS = transcripts.page(STUDY)
TRAINED = [
    (name, run) for name in METHODS if name in RL_METHODS for run in STUDY.methods[name].runs
]
# Evaluated ablations and peers have tables; what is not evaluated yet is no input of it.
ABLATED = [
    manifest
    for name in ON_DEMAND
    for run in STUDY.methods[name].runs
    if (manifest := PATHS.evaluation(name, run) / "manifest.json").exists()
]
TEMPLATES = [
    Path(analysis.__file__).parent / "report" / name
    for name in ("report.html", "tables.html", "style.css")
]
LOGS = RESULTS / "logs"

# What a job that runs models asks of a scheduler, in devices, MB and minutes: all devices of the
# study's placement, one where it has none; models of the clinic and of a test of the path need none.
# Profiles say what the other jobs ask. A local run keeps to `resources: gpu` of its profile.
PLACED = STUDY.placement
ON_CPU = STUDY.synthetic or STUDY.path_test
HOST_GIB = PLACED.host_memory_gib if PLACED else None
ON_MODELS = {
    "gpu": 0 if ON_CPU else PLACED.devices if PLACED else 1,
    "mem_mb": int(1024 * (HOST_GIB or (4 if STUDY.synthetic else 64))),
    "runtime": 1440,
}


wildcard_constraints:
    method="|".join(RUNNABLE),
    run="|".join(STUDY.runs),


# Snakemake's own lock is a file that a killed run leaves behind; the kernel frees this one, however
# a run ends. So the profile switches Snakemake's off, and no rerun needs unlocking.
onstart:
    global LOCK
    try:
        LOCK = hold(RESULTS / ".lock", f"a run of the study '{STUDY.name}'", patience=1.0)
    except UserError as error:
        print(f"pcqc: error: {error}", file=sys.stderr, flush=True)
        os._exit(2)


def settings(*parts, **more):
    """Digest of the settings that a job reads: parts of the study, and what else is named."""
    everything = STUDY.to_dict()
    return digest({**{part: everything[part] for part in parts}, **more})


def escaped(text):
    """A text that Snakemake leaves as it is when it fills in a shell command."""
    return text.replace("{", "{{").replace("}", "}}")


PYTHON = escaped(f"{shlex.quote(sys.executable)} -m")
# What starts a job that learns. It starts its own processes on one machine; on several, a launcher
# starts it on each (docs/clusters.md). It is a command with its arguments, as a shell takes them.
LAUNCHER = escaped(config["launcher"]) if "launcher" in config else PYTHON
SNAKEFILE = escaped(shlex.quote(str(workflow.main_snakefile)))
# A study is named or is a path, which may hold any character.
STUDY_NAME = escaped(shlex.quote(STUDY_ARGUMENT))


def pcqc(command, start=PYTHON):
    """The shell command of a job: its messages go to the terminal and to its log."""
    return f"({start} pcqc.cli {command}) 2>&1 | tee {{log:q}} >&2"


def made_from(job):
    """Parameter of a rule: digest of the settings and the source that its job depends on.

    Results that would come out the same, or that their author has accepted, keep theirs.
    """
    return lambda wildcards: recipe(STUDY, job, wildcards.get("method"), wildcards.get("run"))


def tracked(method):
    """Record of a method's runs in MLflow."""
    return PATHS.tracking(method)


def evaluated(method):
    """Evaluation manifests of a method's runs."""
    runs = STUDY.methods[method].runs
    return [PATHS.evaluation(method, run) / "manifest.json" for run in runs]


def chosen(method, run):
    """A run and the choice of its checkpoint; of Shared SFT, which is not trained, the choice."""
    trained = [PATHS.run(method, run) / "manifest.json"] if method in RL_METHODS else []
    return [*trained, PATHS.evaluation(method, run) / "selection.json"]


def files(method):
    """All that a method's jobs make, in order."""
    return [
        *(path for run in STUDY.methods[method].runs for path in chosen(method, run)),
        *evaluated(method),
        *(path.with_name("manifest.json") for path in continued(method)),
        *continued(method),
        tracked(method),
        receipt("mirror", method),
    ]
