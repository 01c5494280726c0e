"""What must agree among a study's settings."""

from collections.abc import Iterable, Iterator

from pcqc_base.errors import nearest
from pcqc_base.settings.every_method import Method
from pcqc_base.settings.placement import Placement
from pcqc_study.study_file.study import Study

# Names that a study's `data` folder and its tables have beside those of benchmarks.
RESERVED_BENCHMARKS = (
    *("train", "sft", "world", "manifest", "templates", "exclusions", "converted", "overlap"),
    *("clinic", "instruction", "average", "mean"),
)
# Targets of the workflow beside the rules of its jobs. A method's name is a target too.
TARGETS = ("all", "atpo_ablations", "continuation", "lost_points", "peers", "replicate", "trials")

Problem = tuple[str, str]  # path of a setting, and what is wrong with it


def contradictions(study: Study) -> Iterator[Problem]:
    """Settings that do not go together, in the order of a study's file."""
    yield from _benchmarks(study)
    yield from _methods(study)
    yield from _runs(study)
    yield from _clinic(study) if study.synthetic else _real(study)
    yield from _sizes(study)
    yield from _further_updates(study)
    if study.servers.patient and study.servers.patient.asks:
        yield "servers.patient.asks", "a patient answers once; remove it"
    if study.continuation:
        yield from _continuation(study)


def _benchmarks(study: Study) -> Iterator[Problem]:
    roles = [benchmark.role for benchmark in study.benchmarks.values()]
    if roles.count("development") != 1:
        yield "benchmarks", "exactly one must have the role 'development'"
    for name in study.benchmarks:
        if name in RESERVED_BENCHMARKS or name.startswith("train-"):
            yield f"benchmarks.{name}", "the name of another file or row; choose another name"
    yield from _same_titles("benchmarks", study.benchmarks)


def _methods(study: Study) -> Iterator[Problem]:
    from pcqc_study.job_kinds import KINDS  # which reads settings

    rules = {*TARGETS, *(kind.rule or name for name, kind in KINDS.items())}
    for name in study.methods:
        if name in rules:
            yield f"methods.{name}", "the name of a rule of the workflow; choose another name"
    yield from _same_titles("methods", study.methods)


def _same_titles(group: str, entries: dict) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        if (other := seen.setdefault(entry.title, name)) != name:
            yield f"{group}.{name}.title", f"the title of '{other}' too; give each its own"


def _runs(study: Study) -> Iterator[Problem]:
    seeds: dict[int, str] = {}
    for run, seed in study.runs.items():
        if (other := seeds.setdefault(seed, run)) != run:
            yield f"runs.{run}", f"the same seed as run '{other}'; give each its own"
    for name, method in study.methods.items():
        for run in method.runs:
            if run not in study.runs:
                yield f"methods.{name}.runs", f"no run '{run}'{nearest(run, study.runs)}"
        if len(set(method.runs)) < len(method.runs):
            yield f"methods.{name}.runs", "a run twice; name each once"
    if not any(method.runs for method in study.methods.values() if not method.on_demand):
        yield "methods", "none has runs, except for ablations; give one some"
    if not study.common_runs:
        yield (
            "methods",
            "no run is common to all methods that have any, and the tables compare one run of "
            "each; give them one in common",
        )


def _further_updates(study: Study) -> Iterator[Problem]:
    for name, updates in study.also_evaluate.items():
        here = f"also_evaluate.{name}"
        if name not in study.methods:
            yield here, f"no method '{name}'{nearest(name, study.methods)}"
        elif len(set(updates)) < len(updates):
            yield here, "an update twice; name each once"
        else:
            problems = (_checkpoint(study, study.methods[name], update) for update in updates)
            yield from ((here, problem) for problem in problems if problem)


def _checkpoint(study: Study, method: Method, update: int) -> str | None:
    """Why a run of the method may have no checkpoint of an update; None where each has one."""
    rl = study.rl_of(method)
    every, last = rl.checkpoint_every, method.updates
    if update > last or (update % every and update != last):
        return (
            f"no checkpoint at update {update}; they are every rl.checkpoint_every ({every}) "
            f"updates and at the last ({last})"
        )
    if rl.level_after and update > every * (rl.level_after + 1):  # the first that may be the last
        return "a run that levels off may end before; set rl.level_after: 0, or remove it"
    return None


def _updates(study: Study, setting: str, cases: int) -> Iterator[Problem]:
    """Every update needs its cases: by the study's settings, and by those of a method."""
    if cases < study.rl.cases_per_update:
        yield "rl.cases_per_update", f"exceeds {setting}; lower it"
    for name, method in study.methods.items():
        if cases < study.rl_of(method).cases_per_update:
            yield f"methods.{name}.rl.cases_per_update", f"exceeds {setting}; lower it"


def _unused(study: Study, groups: Iterable[str], kind: str) -> Iterator[Problem]:
    for name in groups:
        if getattr(study, name) is not None:
            yield name, f"{kind} does not use it; remove it"


def _clinic(study: Study) -> Iterator[Problem]:
    clinic, model = study.clinic, study.scratch_model
    if not clinic or bool(model) == bool(study.models):
        yield "synthetic", "needs 'clinic', and either 'models' or 'scratch_model'; give these"
        return
    yield from _unused(study, ("data",), "a synthetic study")
    if (study.protocol.instruction is None) == (clinic.instruction is None):
        yield "clinic.instruction", "give either this or protocol.instruction"
    if max(clinic.sft_questions) > clinic.diseases:
        yield "clinic.sft_questions", "there are fewer findings to ask about; lower them"
    if min(clinic.training_options) > clinic.diseases:
        yield "clinic.training_options", "exceed clinic.diseases; lower them"
    if model and model.heads % model.kv_heads:
        yield "scratch_model.kv_heads", "does not divide scratch_model.heads; change one of them"
    yield from _updates(study, "clinic.training_cases", clinic.training_cases)
    if clinic.sft_conversations < study.sft.batch_size:
        yield "sft.batch_size", "exceeds clinic.sft_conversations; lower it"
    for name, benchmark in study.benchmarks.items():
        here = f"benchmarks.{name}"
        if benchmark.cases is None:
            yield f"{here}.cases", "missing; add it"
        if benchmark.raw or benchmark.optional:
            yield here, "a synthetic study invents its cases; remove 'raw' and 'optional'"
        if max(benchmark.options) > clinic.diseases:
            yield f"{here}.options", "exceeds clinic.diseases; lower it"


def _real(study: Study) -> Iterator[Problem]:
    if not study.data or not study.models:
        yield "synthetic", "false needs the settings 'data' and 'models'; add them"
        return
    yield from _unused(study, ("clinic", "scratch_model"), "a study of real cases")
    if study.data.subset and study.data.training_sets:
        yield "data.training_sets", "a subset has other numbers; remove it"
    if kept := study.data.training_cases:
        yield from _updates(study, "data.training_cases", kept)
    for name, benchmark in study.benchmarks.items():
        if benchmark.raw is None:
            yield f"benchmarks.{name}.raw", "missing; add it"
    for name, method in study.methods.items():
        if "world" in method.needs and method.runs:
            yield (
                f"methods.{name}",
                "needs probabilities that only the synthetic clinic has; change its settings "
                "(imagined_answers: 1 or more, imagined_from: nothing), or set runs: []",
            )


def _sizes(study: Study) -> Iterator[Problem]:
    protocol = study.protocol
    if protocol.action_tokens > protocol.response_tokens:
        yield "protocol.action_tokens", "exceeds protocol.response_tokens; lower it"
    if study.actor_decoding.max_tokens != protocol.action_tokens:
        yield "actor_decoding.max_tokens", "must equal protocol.action_tokens"
    if study.sft.patient_epochs > study.sft.epochs:
        yield "sft.patient_epochs", "exceeds sft.epochs; lower it"
    if study.engine.float32_head and study.engine.kind != "vllm":
        yield "engine.float32_head", "only vLLM has one; remove it, or set engine.kind: vllm"
    if study.placement and study.engine.kind == "vllm" and study.engine.process == "learner":
        yield (
            "engine.process",
            "'learner' leaves vLLM in a process that DeepSpeed ends; with a placement set it to "
            "'own'",
        )
    if study.placement and study.placement.learner.compile:
        yield from _compiled(study, study.placement)


def _compiled(study: Study, placement: Placement) -> Iterator[Problem]:
    name, remedy = "placement.learner.compile", "remove it, or set"
    if study.engine.kind != "vllm":  # it would compile anew as its cache of keys grows
        yield name, f"the engine computes with the learner's layers; {remedy} engine.kind: vllm"
    if placement.learner.zero != 1:  # see DeepSpeedBackend
        yield name, f"gradients are added up in order at ZeRO 1 alone; {remedy} learner.zero: 1"
    if placement.deterministic:  # torch picks kernels by the first lengths that it meets
        yield name, f"a resumed run may get other kernels; {remedy} placement.deterministic: false"


def _continuation(study: Study) -> Iterator[Problem]:
    settings = study.continuation
    for name, method in (("method", settings.method), ("reference", settings.reference)):
        if method is not None and method not in study.methods:
            yield f"continuation.{name}", f"no method '{method}'{nearest(method, study.methods)}"
    if settings.reference and not study.method(settings.reference).runs:
        yield (
            "continuation.reference",
            f"method '{settings.reference}' has no runs; give it one, or set reference: null",
        )
    asking = study.method(settings.method)
    if settings.run not in asking.runs:
        yield (
            "continuation.run",
            f"method '{settings.method}' has no run '{settings.run}'; give it that run, or name "
            "one that it has",
        )
    if settings.early and (problem := _checkpoint(study, asking, settings.early)):
        yield "continuation.early", problem
    if len(settings.judges) == 1:
        yield "continuation.judges", "one judge has nobody to agree with; name two or more"
    if study.synthetic:
        if settings.judges:
            yield "continuation.judges", "rules judge the clinic's answers; remove it"
        return
    scorer = study.models.scorer or study.models.actor
    for name, judge in settings.judges.items():
        if judge.server and judge.server.model:
            here = f"continuation.judges.{name}.server.model"
            yield here, "a judge has weights of its own; serve them with vLLM, and remove it"
        if judge.weights.same_weights(scorer):
            yield f"continuation.judges.{name}", "the scorer's weights; name others"
    if settings.ungrounded:
        yield "continuation.ungrounded", "only the clinic's patient can be made to; remove it"
