# The study, its jobs, and what every rule uses.

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

# `analysis` and `data_prep` belong to the checkout and are not installed.
sys.path.insert(0, str(Path(workflow.basedir)))

from snakemake.cli import parse_args

from pcqc.errors import UserError
from pcqc_study.check_results import prepare_to_run
from pcqc_study.graph import KINDS, Jobs, log_path
from pcqc_study.settings import load_study
from pcqc_study.settings.replicates import replicates
from pcqc.errors import nearest
from pcqc.system.files import hold

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
    # Before any path is computed: a result's path depends on the bytes of the study's raw files.
    MISSING = sorted(str(raw.path) for raw in STUDY.raw_files.values() if not raw.path.is_file())
    if MISSING:
        raise UserError(
            f"{', '.join(MISSING)}: missing; download with `pcqc data fetch`, or name the folder that "
            "holds your files: --config data=FOLDER, or PCQC_DATA in the environment"
        )
    # In the workflow's own process alone: each job reads these rules too.
    if workflow.is_main_process:
        prepare_to_run(STUDY)
    # What is typed after `snakemake`; a job's own process is told other targets.
    TYPED = None
    if "snakemake" in Path(sys.argv[0]).parts[-2:] and workflow.is_main_process:
        TYPED = parse_args(sys.argv[1:])[1]
    TARGETS = TYPED.targets if TYPED else []
    RUNNABLE = [name for name, method in STUDY.methods.items() if method.runs]
    ATPO_ABLATIONS = [
        name
        for name in RUNNABLE
        if STUDY.methods[name].method == "atpo" and STUDY.methods[name].on_demand
    ]
    WANTED = [*TARGETS, *(ATPO_ABLATIONS if "atpo_ablations" in TARGETS else [])]
    JOBS = Jobs(STUDY, WANTED)
    REPLICATES = replicates(STUDY)
    _ = [job.path for job in JOBS.all()]  # now, so that what keeps a path unknown is one line
except UserError as error:
    sys.exit(f"pcqc: error: {error}")

RESULTS = STUDY.results
LOGS = RESULTS / "logs"

# What a job that runs models asks of a scheduler, in devices, MB and minutes: all devices of the
# study's placement, one where it has none. Profiles say what the other jobs ask. A local run never uses
# more than `resources: gpu` of its profile.
PLACED = STUDY.placement
HOST_GIB = PLACED.host_memory_gib if PLACED else None
ON_MODELS = {
    "gpu": (PLACED.devices if PLACED else 1) if STUDY.on_gpus else 0,
    "mem_mb": int(1024 * (HOST_GIB or (4 if STUDY.synthetic else 64))),
    "runtime": 1440,
}


wildcard_constraints:
    method="|".join(RUNNABLE),
    run="|".join(STUDY.runs),
    set="|".join(["train", *STUDY.benchmarks]),
    recipe="[0-9a-f]{8}",


# Snakemake's own lock is a file that a killed run leaves behind, so the profile switches it off. The
# kernel frees this lock however a run ends, and no rerun needs unlocking.
onstart:
    global LOCK
    try:
        LOCK = hold(RESULTS / ".lock", f"a run of the study '{STUDY.name}'", patience=1.0)
    except UserError as error:
        print(f"pcqc: error: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    # MLflow gets the curves of trainings while they run; it ends once the lock is free.
    made = [
        job
        for name in RUNNABLE
        if name in (*JOBS.methods, *WANTED)
        for job in JOBS.method(name)
    ]
    if any(job.kind == "train" and not job.manifest.exists() for job in made):
        command = [sys.executable, "-m", "pcqc_study.cli", "follow", STUDY_ARGUMENT]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def manifests(jobs):
    """Manifests of jobs. Their age means nothing: another recipe is another path."""
    return [ancient(str(job.manifest)) for job in jobs]


def on_the_way(methods):
    """Input of a target: manifests of all jobs that these methods need."""
    return manifests([*JOBS.shared(), *(job for name in methods for job in JOBS.method(name))])


def shown(methods):
    """Report and its copy in MLflow: they get what is made on demand, once the study is made."""
    written = JOBS.job("report")
    if not set(methods) <= set(WANTED):
        return []
    waits = [job for job in written.needs if job.arguments[:1] not in [(name,) for name in methods]]
    made = all(job.manifest.exists() for job in waits)
    return manifests([written, JOBS.job("publish")]) if made else []


def patterns(kind):
    """Wildcards of a rule: what tells the jobs of its kind apart, and the recipe."""
    return [f"{{{name}}}" for name in (*KINDS[kind].arguments, "recipe")]


def needs(kind):
    """Input of a rule: manifests of the jobs whose results its job reads."""
    names = KINDS[kind].arguments
    return lambda wildcards: manifests(
        JOBS.job(kind, *(getattr(wildcards, name) for name in names)).needs
    )


def result(kind):
    """Output of a rule: the manifest of its job's result, written last."""
    return RESULTS.joinpath(KINDS[kind].folder, *patterns(kind), "manifest.json")


def log(kind):
    """Log of a rule's job: what it printed."""
    return log_path(STUDY, kind, *patterns(kind))


PYTHON = f"{shlex.quote(sys.executable)} -m"
# What starts a job that processes share out, and what it asks. On one machine it starts its own
# processes; on several, Slurm starts torch's launcher on each (docs/clusters.md), or what the user names.
# Devices are asked for per node, since the plugin would read `gpu` and `tasks` as tasks per GPU.
LAUNCHER, SHARED_OUT = PYTHON, dict(ON_MODELS)
if PLACED and (nodes := PLACED.learner_nodes) > 1:
    cores, count = 8 * PLACED.devices_per_node, len(PLACED.learner.devices) // nodes
    SHARED_OUT |= {"mpi": "srun", "nodes": nodes, "tasks": nodes, "gpu": 0, "cpus_per_task": cores}
    if STUDY.on_gpus:
        SHARED_OUT["slurm_extra"] = f"--gpus-per-node={PLACED.devices_per_node}"
    if shutil.which("srun"):
        LAUNCHER = (
            f"srun --nodes {nodes} --ntasks-per-node 1 --cpus-per-task {cores} torchrun --nnodes {nodes} "
            f"--nproc-per-node {count} --rdzv-backend c10d --rdzv-endpoint $(hostname):29500 -m"
        )
LAUNCHER = config.get("launcher", LAUNCHER)


def command(kind, start):
    """What starts a job of a rule."""

    def of(wildcards):
        arguments = [getattr(wildcards, name) for name in KINDS[kind].arguments]
        # A study is named or is a path, which may hold any character.
        words = [kind, STUDY_ARGUMENT, *arguments, "--recipe", wildcards.recipe]
        return f"{start} pcqc_study.cli {shlex.join(words)}"

    return of
