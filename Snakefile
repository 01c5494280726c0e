# PCQC: from cases to tables. `snakemake --cores` makes everything of one study (`--config study=NAME`,
# the clinic by default); a method's name as target makes that method alone, evaluated and logged.

import atexit
import subprocess
import time

from snakemake.cli import parse_args
from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/continuation.smk"
include: "workflow/rules/tracking.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/peers.smk"
include: "workflow/rules/credit_lab.smk"


# A target names the files on its way too: Snakemake takes a missing file for made where what was
# made from it is there, so that after a failed job the results of old settings would stay.
SHARED = [
    *rules.data.input,
    *rules.data.output,
    *PROVENANCE,
    *rules.base.output,
    *rules.sft.output,
    *rules.track_prepare.output,
]


rule all:
    default_target: True
    input:
        SHARED,
        [files(method) for method in METHODS],
        COLLECTED,
        TABLES,
        FIGURES,
        PAPER,
        REPORT,
        TRANSCRIPTS,
        PUBLISHED,
        receipt("publish"),
        receipt("transcripts"),
        receipt("report"),
    message:
        "{REPORT}"


# One target per method, control and ablation: `snakemake --cores 2 executed_local`.
for name in RUNNABLE:

    rule:
        name:
            name
        input:
            SHARED,
            files(name),
        message:
            f"{tracked(name)}"


rule atpo_ablations:
    input:
        SHARED,
        [files(method) for method in ATPO_ABLATIONS],
    message:
        f"{RESULTS}/evaluation"


rule continuation:
    input:
        SHARED,
        [chosen(*pair) for pair in STUDY.continued],
        [path.with_name("manifest.json") for method in METHODS for path in continued(method)],
        [path for method in METHODS for path in continued(method)],
    message:
        f"{RESULTS}/continuation"


rule credit_quality:
    input:
        SHARED,
        [chosen(*pair) for pair in STUDY.credited],
        rules.credits.input,
        rules.credits.output,
    message:
        f"{CREDIT_TABLE}"


# Published credits that are not in the paper's tables, beside GRPO and PCQC.
rule peers:
    input:
        SHARED,
        [files(method) for method in COMPARED],
        PEERS_TABLE,
    message:
        "{PEERS_TABLE[0]}"


def conclude(targets):
    """Print a study's conclusion, or the numbers of single methods."""
    methods = [name for name in RUNNABLE if name in targets]
    methods += ATPO_ABLATIONS if "atpo_ablations" in targets else []
    for target, table in (("peers", PEERS_TABLE[0]), ("credit_quality", CREDIT_TABLE)):
        if target in targets:
            print(table.read_text(encoding="utf-8"), file=sys.stderr, flush=True)
    if methods or (targets <= {"all"} and REPORT.exists()):
        command = [sys.executable, "-m", "pcqc.cli", "answer", STUDY_ARGUMENT, *methods]
        subprocess.run(command, stdout=sys.stderr)


# What was asked for is said last, below all that Snakemake says.
onsuccess:
    atexit.register(conclude, set(workflow.dag_settings.targets))


STARTED = time.time()


# What went wrong is said once more, below all that Snakemake says.
onerror:
    from pcqc.jobs.status import failures

    atexit.register(print, *failures(STUDY, STARTED), sep="\n", file=sys.stderr)


# Snakemake itself says of a misspelt target only that no rule produces it.
if "snakemake" in Path(sys.argv[0]).parts[-2:]:
    RULES = [rule.name for rule in workflow.rules]
    given = parse_args(sys.argv[1:])[1]
    for target in given.targets:
        if not {"/", "."} & set(target) and target not in RULES:
            sys.exit(f"pcqc: error: unknown target '{target}'{nearest(target, RULES)}")
    # A dry run names parameters by their digests alone.
    if given.dryrun:
        from pcqc.jobs.status import stale

        if lines := stale(STUDY):
            atexit.register(print, *lines, sep="\n", file=sys.stderr)
