# One rule for each kind of job: it needs the results that its job reads, and makes the job's own.
# `src/pcqc_study/graph.py` says which kinds there are, `job_inputs.py` beside it what each reads.

MESSAGES = {
    "clinic": "Cases and SFT conversations of the clinic",
    "convert": "Convert {wildcards.file}",
    "overlap": "Audit the overlap of training and evaluation",
    "instruction": "The actor's system message",
    "prepare": "Cases of {wildcards.set}",
    "base": "Base model, from scratch" if STUDY.scratch_model else "Pretrained models",
    "sft": "Shared SFT: actor and patient",
    "train": "Train {wildcards.method}, run {wildcards.run}",
    "select": "Choose the checkpoint of {wildcards.method}, run {wildcards.run}",
    "evaluate": "Evaluate {wildcards.method}, run {wildcards.run}",
    "continuation": "Continue from the candidates of {wildcards.method}, run {wildcards.run}",
    "grounding": "Judge the answers of {wildcards.method}, run {wildcards.run}",
    "lost_points": "Where {wildcards.method}, run {wildcards.run}, loses its points",
    "lost_points_table": "Table of lost points",
    "mirror": "Mirror {wildcards.method} in MLflow",
    "collect": "Collect all runs from MLflow",
    "report": "Tables, figures, transcripts and report",
    "peers": "Table of other credit rules",
    "publish": "Publish the report in MLflow",
}
# Jobs that run models in one process; the clinic's answers are judged by rules.
ALONE_ON_MODELS = ("lost_points",) if STUDY.synthetic else ("grounding",)


def asked(kind):
    """What a rule's job asks of a scheduler; where it says nothing, profiles do."""
    if KINDS[kind].shared_out:
        return SHARED_OUT
    return ON_MODELS if kind in ALONE_ON_MODELS else {}


# What a stopped job needs to go on lies beside the manifest and is no output, so that a rerun finds it.
for kind, message in MESSAGES.items():

    rule:
        name:
            KINDS[kind].rule or kind
        input:
            needs(kind),
        output:
            result(kind),
        log:
            log(kind),
        # Trainings are the longest jobs: what is short fills the cores at the end.
        priority: 1 if kind == "train" else 0
        resources:
            **asked(kind),
        params:
            command=command(kind, LAUNCHER if KINDS[kind].shared_out else PYTHON),
        message:
            message
        # Its messages go to the terminal and to its log.
        shell:
            "({params.command}) 2>&1 | tee {log:q} >&2"


# A replicate is a study of its own: one job runs its whole workflow. Locally a job gets no more cores
# than there are.
if REPLICATES:

    rule replicate:
        output:
            "results/{study}/collected/{recipe}/manifest.json",
        wildcard_constraints:
            study="|".join(other.name for other in REPLICATES),
        threads: 8
        resources:
            **ON_MODELS,
        params:
            start=f"{PYTHON} snakemake -s {shlex.quote(str(workflow.main_snakefile))}",
        message:
            "All of the study {wildcards.study}"
        shell:
            "{params.start} --cores {threads} all --config study={wildcards.study:q} >&2"
