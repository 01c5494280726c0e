# Cases of the clinic are drawn; those of a real study are converted from the files of their sources.

# What reads cases compares them with it, whether or not it is newer.
DATA_MANIFEST = PATHS.data / "manifest.json"
RAW = STUDY.raw_files
INSTRUCTION = instruction_files(STUDY)
CONVERTED = [PATHS.converted(name) for name in RAW]
TAUGHT = [PATHS.converted(name) for name in RAW if name not in STUDY.benchmarks]
EVALUATED = [PATHS.converted(name) for name in RAW if name in STUDY.benchmarks]
if missing := sorted(str(raw.path) for raw in RAW.values() if not raw.path.is_file()):
    sys.exit(
        f"pcqc: error: {', '.join(missing)}: missing; download with `pcqc data fetch`, or name the "
        "folder that holds your files: --config data=FOLDER, or PCQC_DATA in the environment"
    )


if STUDY.synthetic:

    rule data:
        output:
            PATHS.data / "manifest.json",
            PATHS.train_cases,
            PATHS.conversations,
            PATHS.world,
            [PATHS.cases(name) for name in STUDY.benchmarks],
        log:
            LOGS / "data.log",
        params:
            made_from=made_from("clinic"),
        message:
            "Cases and SFT conversations of the clinic"
        shell:
            pcqc(f"clinic {STUDY_NAME}")

else:

    # The actor's system message, where the study leaves it to the published cases: the training's, or
    # where they have none the development benchmark's.
    if INSTRUCTION:

        rule instruction:
            input:
                [PATHS.card(name) for name in RAW if name not in STUDY.benchmarks],
                PATHS.card(STUDY.development),
                [receipt("convert", name) for name in RAW if name not in STUDY.benchmarks],
                receipt("convert", STUDY.development),
            output:
                INSTRUCTION,
                receipt("prepare", "instruction"),
            log:
                LOGS / "instruction.log",
            params:
                source=source_fingerprint("data_prep.prepare"),
            message:
                "The actor's system message"
            shell:
                pcqc(f"prepare {STUDY_NAME} --only instruction")

    def form(name):
        """The option that names a raw file's format, where the study gives it."""
        return f"--format {shlex.quote(name)}" if name else ""

    rule convert:
        input:
            lambda wildcards: RAW[wildcards.dataset].path,
        output:
            PATHS.converted("{dataset}"),
            PATHS.converted("{dataset}").with_suffix(".exclusions.csv"),
            PATHS.card("{dataset}"),
            receipt("convert", "{dataset}"),
        log:
            LOGS / "convert-{dataset}.log",
        params:
            format=lambda wildcards: form(RAW[wildcards.dataset].format),
            source=source_fingerprint("data_prep.convert"),
        message:
            "Convert {input}"
        shell:
            pcqc("data convert {input:q} --to {output[0]:q} {params.format}")

    # What training and evaluation share is counted and listed to be read; no case is dropped for it.
    rule overlap:
        input:
            training=TAUGHT,
            evaluation=EVALUATED,
        output:
            PATHS.overlap / "counts.csv",
            PATHS.overlap / "pairs.csv",
            PATHS.overlap / "inputs.json",
            receipt("overlap"),
        log:
            LOGS / "overlap.log",
        params:
            folder=PATHS.overlap,
            source=source_fingerprint("data_prep.audit"),
        message:
            "Audit the overlap of training and evaluation"
        shell:
            pcqc(
                "data overlap --training {input.training:q} --evaluation {input.evaluation:q} "
                "--to {params.folder:q}"
            )

    rule training:
        input:
            TAUGHT,
            [receipt("convert", name) for name in RAW if name not in STUDY.benchmarks],
            INSTRUCTION,
            PATHS.model("base") / "manifest.json",
        output:
            PATHS.train_cases,
            PATHS.excluded("train"),
            PATHS.conversations,
            PATHS.data / "templates.json",
            receipt("prepare", "train"),
        log:
            LOGS / "training.log",
        params:
            settings=settings("data", "protocol"),
            source=source_fingerprint("data_prep.prepare"),
        message:
            "Training cases and SFT conversations"
        shell:
            pcqc(f"prepare {STUDY_NAME} --only train")

    # One job each: a benchmark that is added later leaves the others, and what they chose, alone.
    rule benchmark:
        input:
            PATHS.converted("{benchmark}"),
            receipt("convert", "{benchmark}"),
            INSTRUCTION,
            PATHS.model("base") / "manifest.json",
        output:
            PATHS.cases("{benchmark}"),
            PATHS.excluded("{benchmark}"),
            receipt("prepare", "{benchmark}"),
        log:
            LOGS / "benchmark-{benchmark}.log",
        wildcard_constraints:
            benchmark="|".join(STUDY.benchmarks),
        params:
            settings=lambda wildcards: settings(
                "protocol",
                benchmark=STUDY.to_dict()["benchmarks"][wildcards.benchmark],
                seed=STUDY.data.seed,
            ),
            source=source_fingerprint("data_prep.prepare"),
        message:
            "Cases of {wildcards.benchmark}"
        shell:
            pcqc(f"prepare {STUDY_NAME} --only {{wildcards.benchmark:q}}")

    rule data:
        input:
            rules.training.output,
            [PATHS.cases(name) for name in STUDY.benchmarks],
            [PATHS.excluded(name) for name in STUDY.benchmarks],
            [receipt("prepare", name) for name in STUDY.benchmarks],
        output:
            PATHS.data / "manifest.json",
            PATHS.data / "exclusions.csv",
            receipt("prepare", "manifest"),
        log:
            LOGS / "data.log",
        params:
            settings=settings("absent"),
            source=source_fingerprint("data_prep.prepare"),
        message:
            "Digests and exclusions of all cases"
        shell:
            pcqc(f"prepare {STUDY_NAME} --only manifest")


# What the report says of a real study's cases: data cards and the audit.
if STUDY.synthetic:
    PROVENANCE = []
else:
    CARDS = [path for name in RAW for path in (PATHS.card(name), receipt("convert", name))]
    PROVENANCE = [*CARDS, *rules.overlap.output]
