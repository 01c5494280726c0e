COLLECTED = [*rules.collect.output, *REPLICATED]


rule tables:
    input:
        COLLECTED,
        ABLATED,
        PROVENANCE,
    output:
        TABLES,
    log:
        LOGS / "tables.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=source_fingerprint("analysis.tables"),
    message:
        "Tables"
    shell:
        pcqc(f"tables {STUDY_NAME}")


rule figures:
    input:
        COLLECTED,
    output:
        FIGURES,
    log:
        LOGS / "figures.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=source_fingerprint("analysis.figures"),
    message:
        "Figures"
    shell:
        pcqc(f"figures {STUDY_NAME}")


rule report:
    input:
        COLLECTED,
        ABLATED,
        PROVENANCE,
        TABLES,
        FIGURES,
    output:
        REPORT,
        receipt("report"),
    log:
        LOGS / "report.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=source_fingerprint("analysis.report"),
        templates=inputs_fingerprint(TEMPLATES),
    message:
        "Report"
    shell:
        pcqc(f"report {STUDY_NAME}")


# Read from the runs' own files, of ablations too where they are made.
rule transcripts:
    input:
        [path for method in METHODS for path in evaluated(method)],
        [PATHS.run(*pair) / "manifest.json" for pair in TRAINED],
        [PATHS.continuation(*pair) / "manifest.json" for pair in STUDY.continued],
        ABLATED,
    output:
        TRANSCRIPTS,
        receipt("transcripts"),
    log:
        LOGS / "transcripts.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=source_fingerprint("analysis.transcripts"),
        templates=inputs_fingerprint([*transcripts.STYLES, *transcripts.SCRIPTS, transcripts.PAGE]),
    message:
        "Transcripts"
    shell:
        pcqc(f"transcripts {STUDY_NAME}")


# Where no LaTeX is installed, `outputs` names paper.tex alone, and the job says so.
rule paper:
    input:
        COLLECTED,
        TABLES,
        FIGURES,
    output:
        PAPER,
    log:
        LOGS / "paper.log",
    params:
        settings=digest(STUDY.to_dict()),
        source=source_fingerprint("analysis.paper"),
    message:
        "Paper"
    shell:
        pcqc(f"paper {STUDY_NAME}")


rule publish:
    input:
        PREPARED,
        REPORT,
        TABLES,
        FIGURES,
        PAPER,
        TRANSCRIPTS,
    output:
        PUBLISHED,
        receipt("publish"),
    log:
        LOGS / "track" / "publish.log",
    params:
        store=digest(STORE),
        source=source_fingerprint("pcqc.tracking.publish"),
    message:
        "Publish the report in MLflow"
    shell:
        pcqc(f"track publish {STUDY_NAME}")
