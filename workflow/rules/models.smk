# The models that all runs share: what they start from, and Shared SFT with the patient.


rule base:
    input:
        scratch=given(*(() if STUDY.models else (JOBS.world(), JOBS.instruction()))),
    output:
        result("base"),
    log:
        log_of("base"),
    params:
        command=command("base"),
    message:
        sentence("base")
    shell:
        JOB


rule sft:
    input:
        base=made("base"),
        conversations=cases("sft"),
        instruction=given(JOBS.instruction()),
    output:
        result("sft"),
    log:
        log_of("sft"),
    # Everything waits for it, so in the clinic it has two threads, on a single core too: with another
    # number its bytes may be others.
    priority: 2
    threads: KINDS["sft"].threads if THREADED else 1
    resources:
        **asked("sft"),
    params:
        command=awake("sft") if THREADED else command("sft"),
    message:
        sentence("sft")
    shell:
        JOB
