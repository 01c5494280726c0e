# The study, its jobs, and what every rule uses.

import logging
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

# `analysis` and `data_prep` belong to the checkout and are not installed.
sys.path.insert(0, str(Path(workflow.basedir)))

from snakemake.cli import parse_args

from pcqc_base.errors import UserError
from pcqc_study.check_results import prepare_to_run
from pcqc_study.graph import Jobs, is_archived, log_path
from pcqc_study.job_kinds import KINDS
from pcqc_study.study_file import load_study
from pcqc_study.study_file.replicates import replicates
from pcqc_study.fork_server import ADDRESS, LARGE
from pcqc_base.errors import nearest
from pcqc_base.system.locks import hold
from pcqc_base.system.machine import hold_to_avx2
from pcqc_base.system.manifest import MARKER, accepted
from pcqc_base.system.progress import TimeLeft
from pcqc_base.system.terminal import print_anywhere
from pcqc_study.status import lasted

print_anywhere()
os.environ.pop("PYTHONOPTIMIZE", None)  # jobs need transformers, which reads docstrings

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
    if STUDY.synthetic:
        hold_to_avx2()  # the processes that jobs fork from have imported torch
    # Before any path is computed: a result's path depends on the bytes of the study's raw files.
    PUBLISHED = [] if STUDY.synthetic else STUDY.raw_files.values()
    MISSING = sorted(str(raw.path) for raw in PUBLISHED if not raw.path.is_file())
    if MISSING:
        raise UserError(
            f"{', '.join(MISSING)}: missing; download with `pcqc data fetch`, or name the folder that "
            "holds your files: --config data=FOLDER, or PCQC_DATA in the environment"
        )
    # What is typed after `snakemake`; a job's own process is told other targets.
    TYPED = None
    if "snakemake" in Path(sys.argv[0]).parts[-2:] and workflow.is_main_process:
        TYPED = parse_args(sys.argv[1:])[1]
    TARGETS = TYPED.targets if TYPED else []
    # In the workflow's own process alone: each job reads these rules too.
    if workflow.is_main_process:
        prepare_to_run(STUDY, writes=not (TYPED and TYPED.dryrun))
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

if workflow.is_main_process and not (TYPED and TYPED.dryrun):
    TOOK = lasted(job for job in JOBS.all() if job.manifest.exists())
    BY_RULE = {kind.rule or name: TOOK.get((name,), []) for name, kind in KINDS.items()}
    logging.getLogger("snakemake.logging").addHandler(TimeLeft({**BY_RULE, "replicate": []}))

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
    set="|".join(["world", "train", "sft", *STUDY.benchmarks]),
    fingerprint="[0-9a-f]{8}",


# Snakemake's own lock is a file that a killed run leaves behind, so the profile switches it off. The
# kernel frees this lock however a run ends, and no rerun needs unlocking.
onstart:
    global LOCK
    try:
        LOCK = hold(RESULTS / ".lock", f"a run of the study '{STUDY.name}'", patience=1.0)
    except UserError as error:
        print(f"pcqc: error: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    # On this machine's processors jobs fork from processes that have imported what they need; these end
    # once the pipes to them do, with this one.
    on_processors = sys.platform == "linux" and workflow.local_exec and not PLACED
    if on_processors and ADDRESS not in os.environ:
        global WARM
        os.environ[ADDRESS] = f"pcqc-{secrets.token_hex(16)}-"
        start = [sys.executable, "-m", "pcqc_study.fork_server", os.environ[ADDRESS]]
        silent = {name: subprocess.DEVNULL for name in ("stdout", "stderr")} | {
            "stdin": subprocess.PIPE
        }
        WARM = [subprocess.Popen([*start, large, STUDY_ARGUMENT], **silent) for large in LARGE]
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


def made(kind, *arguments):
    """Input: the marker of a job's result. Its age means nothing: another fingerprint is another path."""
    return ancient(str(JOBS.job(kind, *arguments).marker))


def markers(jobs):
    """Input: the markers of several jobs' results."""
    return [ancient(str(job.marker)) for job in jobs]


def here(jobs):
    """Input: the same for a rule that reads no weights: what an archive brought without them is there."""
    return markers(job for job in jobs if not (job.manifest.exists() and is_archived(job)))


def of_run(kind):
    """Input: what a job of another kind made of the run that the rule's wildcards name."""
    return lambda wildcards: made(kind, wildcards.method, wildcards.run)


def cases(*names):
    """Input: sets of cases; of a study of real cases `train` also has the SFT conversations."""
    return markers(dict.fromkeys(JOBS.cases(name).job for name in names))


def given(*parts):
    """Input: what some studies have and others lack, such as the clinic's world."""
    return markers(part.job for every in parts for part in every.values())


def jobs_of(methods):
    """All jobs that these methods need."""
    return [*JOBS.shared(), *(job for name in methods for job in JOBS.method(name))]


def on_the_way(methods):
    """Input of a target: results of all jobs that these methods need."""
    return here(jobs_of(methods))


def shown(methods):
    """Report and its copy in MLflow: they get what is made on demand, once the study is made."""
    written = JOBS.job("report")
    if not set(methods) <= set(WANTED):
        return []
    waits = [job for job in written.needs if job.arguments[:1] not in [(name,) for name in methods]]
    whole = all(job.manifest.exists() for job in waits)
    return markers([written, JOBS.job("publish")]) if whole else []


def patterns(kind):
    """Wildcards of a rule: what tells the jobs of its kind apart, and the fingerprint."""
    return [f"{{{name}}}" for name in (*KINDS[kind].arguments, "fingerprint")]


def result(kind):
    """Output of a rule: a marker in the folder of its job's result. Snakemake removes what a job that failed
    declared as output; so the result itself is none, and a finished one stays whatever follows."""
    return RESULTS.joinpath(KINDS[kind].folder, *patterns(kind), MARKER)


def log_of(kind):
    """Log of a rule's job: what it printed."""
    return log_path(STUDY, kind, *patterns(kind))


def sentence(kind):
    """What a rule's job does, for Snakemake."""
    names = {name: f"{{wildcards.{name}}}" for name in KINDS[kind].arguments}
    text = KINDS[kind].sentence.format(**names)
    return f"{text[0].upper()}{text[1:]}"


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
# Whether fine-tuning is small, and one process of this machine.
THREADED = STUDY.synthetic and not PLACED and LAUNCHER == PYTHON


def asked(kind):
    """What a rule's job asks of a scheduler; where it says nothing, profiles do."""
    if KINDS[kind].shared_out:
        return SHARED_OUT
    # The clinic's answers are judged by rules.
    return (
        ON_MODELS if KINDS[kind].on_models and not (kind == "grounding" and STUDY.synthetic) else {}
    )


def command(kind):
    """What starts a job of a rule."""
    start = LAUNCHER if KINDS[kind].shared_out else PYTHON

    def of(wildcards):
        arguments = [getattr(wildcards, name) for name in KINDS[kind].arguments]
        # A study is named or is a path, which may hold any character.
        words = [kind, STUDY_ARGUMENT, *arguments, "--fingerprint", wildcards.fingerprint]
        return f"{start} pcqc_study.cli {shlex.join(words)}"

    return of


def awake(kind):
    """The same, where each of its threads has a core: they wait for each other awake."""
    policy, alone = "OMP_WAIT_POLICY=active GOMP_SPINCOUNT=1000000", command(kind)
    return lambda wildcards, threads: f"{policy if threads > 1 else ''} {alone(wildcards)}".strip()


# A job's messages go to the terminal and to its log; a log that cannot be written decides nothing. The
# job marks its result as its last act. What a process does after that, such as a crash while it ends,
# changes nothing: the result is whole.
JOB = (
    "({params.command}) 2>&1 | {{ tee {log:q} || true; }} >&2 || "
    "{{ how=$?; test -e {output:q} || exit $how; echo 'pcqc: the process of {rule} {wildcards} ended with "
    "an error after its result was whole; the result is kept' >&2; }}"
)
