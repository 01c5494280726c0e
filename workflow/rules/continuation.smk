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
        ancient(DATA_MANIFEST),
    output:
        PATHS.continuation("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "continuation" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("continuation"),
    message:
        "Continue from the candidates of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"continuation {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")


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
        made_from=made_from("grounding"),
    message:
        "Judge the answers of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"grounding {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")
