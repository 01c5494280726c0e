# The continuation study: what comes of each candidate question, and which answers may count.


# The clinic's judge knows its world; other studies ask the scorer's model.
JUDGE = [PATHS.world] if STUDY.synthetic else MODELS
REVIEW = [STUDY.continuation.review] if STUDY.continuation and STUDY.continuation.review else []


def continued(method):
    """What the continuation study makes of a method's runs; nothing for most methods."""
    pairs = [pair for pair in STUDY.continued if pair[0] == method]
    return [PATHS.continuation(*pair) / "grounding.csv" for pair in pairs]


rule continue_candidates:
    input:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
        trained,
        MODELS,
        PATHS.cases(STUDY.development),
    output:
        PATHS.continuation("{method}", "{run}") / "manifest.json",
        PATHS.continuation("{method}", "{run}") / "candidates.parquet",
        PATHS.continuation("{method}", "{run}") / "continuations.parquet",
    log:
        LOGS / "continuation" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        settings=digest(job_settings(STUDY, "continuation")),
        source=source_fingerprint("pcqc.jobs.continuation"),
    message:
        "Continue from the candidates of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"continuation {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}")


rule ground_answers:
    input:
        rules.continue_candidates.output,
        PATHS.cases(STUDY.development),
        JUDGE,
        REVIEW,
    output:
        PATHS.continuation("{method}", "{run}") / "grounding.csv",
    log:
        LOGS / "continuation" / "{method}-{run}-grounding.log",
    resources:
        **({} if STUDY.synthetic else ON_MODELS),
    params:
        settings=digest(job_settings(STUDY, "grounding")),
        source=source_fingerprint("pcqc.jobs.grounding", "data_prep.clinic.grounding"),
    message:
        "Judge the answers of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"grounding {STUDY_ARGUMENT} {{wildcards.method}} {{wildcards.run}}")


rule continuation:
    input:
        [path for method in METHODS for path in continued(method)],
    message:
        "{input}"
