# Published credits that are not in the paper's tables, beside GRPO and PCQC.

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
