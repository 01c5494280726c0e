STORE = tracking_uri(STUDY)
PREPARED = RESULTS / "tracking" / "prepared"

# The marker says that the store is there. Where its file was removed, all is mirrored anew.
if sqlite_file(STORE) and not sqlite_file(STORE).exists():
    PREPARED.unlink(missing_ok=True)


# The store is migrated once, before several jobs could race to do it.
rule track_prepare:
    output:
        touch(PREPARED),
    log:
        LOGS / "track" / "prepare.log",
    params:
        store=digest(STORE),
    message:
        "Prepare MLflow"
    shell:
        pcqc(f"track prepare {STUDY_ARGUMENT}")


rule track:
    input:
        PREPARED,
        lambda wildcards: evaluated(wildcards.method),
        lambda wildcards: searched(wildcards.method),
        lambda wildcards: continued(wildcards.method),
    output:
        PATHS.tracking("{method}"),
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
        pcqc(f"track mirror {STUDY_ARGUMENT} {{wildcards.method}}")


rule collect:
    input:
        [tracked(method) for method in METHODS],
    output:
        PATHS.collected / "predictions.parquet",
        PATHS.collected / "updates.parquet",
        PATHS.collected / "runs.json",
    log:
        LOGS / "track" / "collect.log",
    params:
        source=source_fingerprint("pcqc.tracking.collect"),
    message:
        "Collect all runs from MLflow"
    shell:
        pcqc(f"track collect {STUDY_ARGUMENT}")
