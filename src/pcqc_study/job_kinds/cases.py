"""Jobs that make cases: raw files, which the clinic draws or others published, are converted."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pcqc_base.errors import UserError, nearest
from pcqc_study.job_kinds.register import Given, Settings, kind, of

if TYPE_CHECKING:
    from pcqc_base.settings import Benchmark
    from pcqc_study.graph import Jobs

# Settings of a clinic's world.
WORLD = ("diseases", "complaints", "complaint_odds", "noise", "seed")


@kind("draw the clinic's {set}", "data/clinic", "pcqc_clinic.jobs.clinic", "set", synthetic=True)
def clinic(jobs: "Jobs", name: str) -> Given:
    """The world, or one set of cases; it shares none with the sets before it."""
    study, names = jobs.study, jobs.drawn()
    if name not in names:
        raise UserError(f"study '{study.name}' has no set '{name}'{nearest(name, names)}")
    settings = Settings(name=name, world=Settings(**of(study.clinic, *WORLD)))
    if name == "world":
        return settings, {}
    settings.instruction = study.clinic.instruction
    inputs = {before: jobs.drawn_cases(before) for before in names[1 : names.index(name)]}
    if name in study.benchmarks:
        settings.benchmark = unlabelled(study.benchmarks[name])
        return settings, inputs
    settings.options = study.clinic.training_options
    if name == "train":
        settings.cases = study.clinic.training_cases
        return settings, inputs
    settings.instruction = study.protocol.instruction or study.clinic.instruction
    settings.conversations = study.clinic.sft_conversations
    settings.questions, settings.asks = study.clinic.sft_questions, study.clinic.sft_asks
    return settings, inputs


@kind(
    "convert {file}, a published file, to cases",
    "data/converted",
    "data_prep.convert",
    "file",
)
def convert(jobs: "Jobs", name: str) -> Given:
    files = jobs.study.raw_files
    if name not in files:
        raise UserError(f"study '{jobs.study.name}' has no file '{name}'{nearest(name, files)}")
    drawn = jobs.study.synthetic  # by a job, whose manifest has the file's digest
    return Settings(format=files[name].format, drawn=drawn), {"raw": jobs.raw(name)}


@kind("audit the overlap of training and evaluation", "data/overlap", "data_prep.overlap_audit")
def overlap(jobs: "Jobs") -> Given:
    names, benchmarks = list(jobs.study.raw_files), jobs.study.benchmarks
    settings = Settings(
        training=tuple(name for name in names if name not in benchmarks),
        evaluation=tuple(name for name in names if name in benchmarks),
    )
    return settings, {name: jobs.job("convert", name) / f"{name}.jsonl" for name in names}


@kind(
    "take the actor's system message from the published cases",
    "data/instruction",
    "data_prep.instruction",
)
def instruction(jobs: "Jobs") -> Given:
    study = jobs.study
    names = [n for n in study.raw_files if n not in study.benchmarks or n == study.development]
    training = tuple(name for name in study.raw_files if name.startswith("train"))
    settings = Settings(training=training, development=study.development)
    return settings, {name: jobs.job("convert", name) / f"{name}.card.json" for name in names}


@kind("select the cases of {set}", "data", "data_prep.prepare", "set", large="models")
def prepare(jobs: "Jobs", name: str) -> Given:
    """Cases of a benchmark; for `train` the training cases and the SFT conversations."""
    study, training = jobs.study, name == "train"
    if not training and name not in study.benchmarks:
        known = ["train", *study.benchmarks]
        raise UserError(f"study '{study.name}' has no set '{name}'{nearest(name, known)}")
    taught = [n for n in study.raw_files if n not in study.benchmarks]
    data = study.sources
    expected = data.training_cases if training else study.benchmarks[name].cases
    names = taught if training else [name]
    inputs = {n: jobs.job("convert", n) / f"{n}.jsonl" for n in names}
    cards = {n: jobs.job("convert", n) / f"{n}.card.json" for n in names if n != "sft"}
    inputs |= {f"card {n}": card for n, card in cards.items()}
    inputs |= {f"tokenizer {role}": jobs.base_model(role) for role in ("actor", "patient")}
    inputs |= jobs.instruction()
    settings = Settings(name=name, protocol=study.protocol, data=data, expected=expected)
    settings.answer_tokens = study.patient_decoding.max_tokens
    return settings, inputs


def unlabelled(benchmark: "Benchmark") -> "Benchmark":
    """A benchmark without what tables print of it."""
    return replace(benchmark, title="-", role="held_out")
