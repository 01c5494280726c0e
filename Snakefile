# PCQC: from cases to tables. `snakemake --cores` makes everything of one study (`--config study=NAME`,
# the clinic by default); a method's name as target makes that method alone, evaluated and logged.

import atexit
import subprocess
import time

from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/results.smk"


rule all:
    default_target: True
    input:
        on_the_way(JOBS.methods),
        markers([JOBS.job(kind) for kind in ("collect", "report", "publish")]),
    message:
        "{RESULTS}/report.html"


# One target for each method that has runs: `snakemake --cores 2 executed_local`. What the study leaves
# out, such as a variation, also gets its place in the report. What an archive left out of the method's
# runs, and of the models that they start from, is made again.
for name in RUNNABLE:

    rule:
        name:
            name
        input:
            markers(jobs_of([name])),
            shown([name]) if STUDY.methods[name].on_demand else [],
        message:
            f"{RESULTS}/evaluation/{name}"


rule atpo_ablations:
    input:
        on_the_way(ATPO_ABLATIONS),
        shown(ATPO_ABLATIONS),
    message:
        f"{RESULTS}/evaluation"


rule continuation:
    input:
        here([*JOBS.shared(), *(job for pair in STUDY.continued for job in JOBS.run(*pair))]),
    message:
        f"{RESULTS}/continuation"


# Trainings alone: of the studies that `pcqc tune` writes (docs/tuning.md).
rule trials:
    input:
        markers(
            [
                JOBS.job("train", name, run)
                for name in RUNNABLE
                if JOBS.is_trained(name)
                for run in STUDY.methods[name].runs
            ]
        ),
    message:
        f"{RESULTS}/runs"


# Credits that are not in the paper's tables, beside GRPO and PCQC.
rule peers:
    input:
        on_the_way(JOBS.compared),
        markers([JOBS.job("peers")]),
    message:
        f"{RESULTS}/peers/latest/peers.md"


# Where each run loses its points, which only the clinic can tell.
if STUDY.synthetic:

    rule lost_points:
        input:
            markers([*JOBS.lost_points(), JOBS.job("lost_points_table")]),
        message:
            f"{RESULTS}/lost_points_table/latest/lost_points.md"


def conclude(targets):
    """Print a study's conclusion, or the numbers of single methods."""
    methods = [name for name in RUNNABLE if name in targets]
    methods += ATPO_ABLATIONS if "atpo_ablations" in targets else []
    # Where `--until` ended a run earlier, there is nothing to say yet.
    methods = [m for m in methods if all(job.manifest.exists() for job in JOBS.method(m))]
    if "peers" in targets:
        table = JOBS.job("peers").path / "peers.md"
        print(table.read_text(encoding="utf-8"), file=sys.stderr, flush=True)
    if methods or (targets <= {"all"} and JOBS.job("report").manifest.exists()):
        command = [sys.executable, "-m", "pcqc_study.cli", "answer", STUDY_ARGUMENT, *methods]
        subprocess.run(command, stdout=sys.stderr)


# The conclusion is printed last, below Snakemake's own messages.
onsuccess:
    for job in JOBS.all():
        accepted(job)
    atexit.register(conclude, set(workflow.dag_settings.targets))


STARTED = time.time()


# Errors are printed once more, below Snakemake's own messages.
onerror:
    from pcqc_study.status import failures

    said = "".join(Path(name).read_text(encoding="utf-8", errors="replace") for name in log)
    atexit.register(print, *failures(STUDY, STARTED, said), sep="\n", file=sys.stderr)


# A misspelt target is named with the nearest one; Snakemake says only that no rule produces it.
if TYPED:
    RULES = [rule.name for rule in workflow.rules]
    for target in TARGETS:
        if not {"/", "."} & set(target) and target not in RULES:
            sys.exit(f"pcqc: error: unknown target '{target}'{nearest(target, RULES)}")
    # A dry run shows fingerprints by their digests alone; this says what changed.
    if TYPED.dryrun:
        from pcqc_study.status import lost, stale

        if lines := [*stale(STUDY), *lost(STUDY)]:
            atexit.register(print, *lines, sep="\n", file=sys.stderr)
