# The audit of credits reads no study's results: methods, source, and a clinic of its own.


rule credit_audit:
    output:
        "results/audit/table.csv",
        "results/audit/table.md",
    log:
        LOGS / "audit.log",
    params:
        settings=lambda wildcards: digest(load_study("paper").to_dict()["methods"]),
        source=lambda wildcards: source_fingerprint("pcqc.audit.table"),
    message:
        "Audit of credits: {output[1]}"
    shell:
        pcqc("audit")
