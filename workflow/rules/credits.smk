# How well each credit ranks questions, at states of policies that are there; nothing is trained.


CREDIT_TABLE = RESULTS / "tables" / "credit_quality.md"
CREDIT_QUALITY = [
    RESULTS / f"{registry.kind}s" / f"credit_quality.{form}"
    for registry in (analysis.tables.TABLES, analysis.figures.FIGURES)
    for form in registry.forms
]


rule question_credits:
    input:
        PATHS.evaluation("{method}", "{run}") / "selection.json",
        trained,
        MODELS,
        PATHS.cases(STUDY.development),
        ancient(DATA_MANIFEST),
    output:
        PATHS.credit_quality("{method}", "{run}") / "manifest.json",
    log:
        LOGS / "credit_quality" / "{method}-{run}.log",
    resources:
        **ON_MODELS,
    params:
        made_from=made_from("credit_quality"),
    message:
        "Credits at the states of {wildcards.method}, run {wildcards.run}"
    shell:
        pcqc(f"question-credits {STUDY_NAME} {{wildcards.method:q}} {{wildcards.run:q}}")


rule credits:
    input:
        [PATHS.credit_quality(*pair) / "manifest.json" for pair in STUDY.credited],
    output:
        CREDIT_QUALITY,
        receipt("credits"),
    log:
        LOGS / "credits.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=lambda wildcards: source_fingerprint("analysis.credits"),
    message:
        "Quality of credits"
    shell:
        pcqc(f"credits {STUDY_NAME}")


COMPARED = [method for method in (*RIVALS, *PEERS, *RATES) if method in RUNNABLE]
PEERS_TABLE = [RESULTS / "tables" / f"peers.{form}" for form in ("md", "csv", "tex")]
# What the table also reads where it is there, and never waits for: runs of the paper's methods, and
# peers that an archive kept.
READ_BESIDE = [
    path
    for path in (receipt("collect"), *REPLICATED, RESULTS / "peers" / "runs.json")
    if Path(path).exists()
]


rule peers_table:
    input:
        [path for method in COMPARED for path in evaluated(method)],
    output:
        PEERS_TABLE,
        receipt("peers"),
    log:
        LOGS / "peers.log",
    params:
        settings=digest(STUDY.to_dict()),
        beside=inputs_fingerprint(READ_BESIDE),
        source=lambda wildcards: source_fingerprint("analysis.tables.peers"),
    message:
        "Table of published credits"
    shell:
        pcqc(f"peers {STUDY_NAME}")
