STORE = tracking_uri(STUDY)
PUBLISHED = published(STUDY)
PREPARED = receipt("store")


# The store is migrated once, before several jobs could race to do it. Where its database was deleted
# or moved, common.smk has removed this output: all runs are mirrored again.
rule track_prepare:
    output:
        PREPARED,
        PATHS.store,
    log:
        LOGS / "track" / "prepare.log",
    params:
        store=digest(STORE),
    message:
        "Prepare MLflow"
    shell:
        pcqc(f"track prepare {STUDY_NAME}")


rule track:
    input:
        PREPARED,
        lambda wildcards: evaluated(wildcards.method),
        lambda wildcards: continued(wildcards.method),
    output:
        PATHS.tracking("{method}"),
        PATHS.tracking("{method}").with_suffix(".receipt.json"),
    log:
        LOGS / "track" / "{method}.log",
    params:
        settings=lambda wildcards: settings(
            "title",
            "benchmarks",
            "tracking",
            method=STUDY.to_dict()["methods"][wildcards.method],
        ),
        source=source_fingerprint("pcqc.tracking.mirror"),
    message:
        "Mirror {wildcards.method} in MLflow"
    shell:
        pcqc(f"track mirror {STUDY_NAME} {{wildcards.method:q}}")


rule collect:
    input:
        [tracked(method) for method in METHODS],
    output:
        PATHS.collected / "predictions.parquet",
        PATHS.collected / "updates.parquet",
        PATHS.collected / "runs.json",
        receipt("collect"),
    log:
        LOGS / "track" / "collect.log",
    params:
        source=source_fingerprint("pcqc.tracking.collect"),
    message:
        "Collect all runs from MLflow"
    shell:
        pcqc(f"track collect {STUDY_NAME}")


# A replicate is a study of its own: one job runs its whole workflow. Locally a job gets no more cores
# than there are.
if REPLICATES:

    rule replicate:
        output:
            "results/{study}/collected/receipt.json",
        wildcard_constraints:
            study="|".join(other.name for other in REPLICATES),
        threads: 8
        resources:
            **ON_MODELS,
        params:
            settings=lambda wildcards: digest(load_study(wildcards.study).to_dict()),
            source=study_fingerprint(),
        message:
            "All of the study {wildcards.study}"
        shell:
            f"{PYTHON} snakemake -s {SNAKEFILE} --cores {{threads}} all "
            "--config study={wildcards.study:q} >&2"
