# The store is migrated once, before several jobs could race to do it.
rule track_prepare:
    output:
        touch(RESULTS / "tracking" / "prepared"),
    log:
        LOGS / "track" / "prepare.log",
    shell:
        pcqc(f"track prepare {STUDY_ARGUMENT}")


rule track:
    input:
        ancient(RESULTS / "tracking" / "prepared"),
        lambda wildcards: evaluated(wildcards.method),
    output:
        RESULTS / "tracking" / "{method}.json",
    log:
        LOGS / "track" / "{method}.log",
    params:
        source=source("pcqc.tracking.mirror"),
    shell:
        pcqc(f"track mirror {STUDY_ARGUMENT} {{wildcards.method}}")


rule collect:
    input:
        [tracked(method) for method in METHODS],
    output:
        RESULTS / "collected" / "predictions.parquet",
        RESULTS / "collected" / "updates.parquet",
        RESULTS / "collected" / "runs.json",
    log:
        LOGS / "track" / "collect.log",
    params:
        source=source("pcqc.tracking.collect"),
    shell:
        pcqc(f"track collect {STUDY_ARGUMENT}")
