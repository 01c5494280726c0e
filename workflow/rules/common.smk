# Settings, names of files, and fingerprints that every rule uses.

import sys

import analysis.figures
import analysis.tables
from pcqc.config import digest, load_study
from pcqc.errors import UserError
from pcqc.jobs.paths import Paths
from pcqc.provenance import source_fingerprint

try:
    STUDY = load_study(config.get("study", "clinic"))
except UserError as error:
    sys.exit(f"pcqc: error: {error}")

STUDY_ARGUMENT = config.get("study", "clinic")
PATHS = Paths.of(STUDY)
RESULTS = STUDY.results
METHODS = [name for name, method in STUDY.methods.items() if method.runs]
RL_METHODS = [name for name in METHODS if STUDY.methods[name].kind == "rl"]
TABLES = list(analysis.tables.outputs(STUDY))
FIGURES = list(analysis.figures.outputs(STUDY))
REPORT = RESULTS / "report.html"
LOGS = RESULTS / "logs"


wildcard_constraints:
    method="|".join(METHODS),
    run="|".join(STUDY.runs),


def settings(*parts, method=None):
    """Digest of the settings that a job reads: parts of the study, and its method's entry."""
    everything = STUDY.to_dict()
    chosen = {part: everything[part] for part in parts}
    if method is not None:
        chosen["method"] = everything["methods"][method]
    return digest(chosen)


def source(*modules):
    """Fingerprint of the modules that a job imports."""
    return source_fingerprint(*modules)


def pcqc(command):
    """The shell command of a job: its messages go to the terminal and to its log."""
    return f"({sys.executable} -m pcqc.cli {command}) 2>&1 | tee {{log}} >&2"


def tracked(method):
    """Record of a method's runs in MLflow."""
    return RESULTS / "tracking" / f"{method}.json"


def evaluated(method):
    """Evaluation manifests of a method's runs."""
    runs = STUDY.methods[method].runs
    return [PATHS.evaluation(method, run) / "manifest.json" for run in runs]
