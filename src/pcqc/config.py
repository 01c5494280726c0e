"""Settings of a study and of its methods: what a researcher edits, typed and checked.

A study is one file in `config/studies/`; the methods are entries of `config/methods.yaml`, of which
a study may override single settings. Every field is documented where it stands.
"""

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pcqc.errors import UserError
from pcqc.settings import build, nearest, read_yaml

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Benchmark:
    """An evaluation set and its role: checkpoints are chosen on `development` alone."""

    title: str
    role: Literal["development", "held_out", "independent_source"]
    cases: int | None = None  # how many to draw (clinic) or to keep; all where not given
    options: tuple[int, ...] = (4,)  # clinic: numbers of options, drawn uniformly
    recorded_facts: float = 1.0  # clinic: share of the findings that the facts record
    wording: Literal["plain", "reported"] = "plain"  # clinic: how facts are worded
    base_rates: Literal["uniform", "skewed"] = "uniform"  # clinic: of the diseases


@dataclass(frozen=True)
class Clinic:
    """The synthetic world; `docs/clinic.md` gives its Bayes figures."""

    diseases: int
    findings: int
    typical: int  # findings typical of each disease
    noise: float  # probability that a finding departs from its profile
    seed: int
    training_cases: int
    sft_conversations: int
    sft_questions: tuple[int, ...]  # numbers of questions in an SFT conversation, drawn uniformly


@dataclass(frozen=True)
class ScratchModel:
    """A Qwen3-architecture model trained from scratch: the stand-in for pretrained weights."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int  # of the feed-forward layers
    initialization: float  # standard deviation; must fit the width
    documents_per_step: int
    learning_rate: float  # of AdamW; Muon's is five times this
    warmup_steps: int
    look_up_loss: float  # loss at which the next, harder level of look-ups begins
    summary_loss: float  # loss on summaries at which the mixture of all texts begins
    mixture_steps: int
    most_steps: int  # the curriculum moves on by what was learned; this bounds it
    seed: int


@dataclass(frozen=True)
class Protocol:
    """Limits and words of a consultation (Section 4.1 and Appendix A of the paper)."""

    instruction: str  # system message of the actor
    max_turns: int = 10  # actor turns, the final answer included
    prompt_tokens: int = 1024
    response_tokens: int = 4096  # everything after the prompt, answers of the patient included
    action_tokens: int = 512
    earlier_thinking: Literal["keep", "drop"] = "keep"  # in the history, in SFT, RL and evaluation


@dataclass(frozen=True)
class Decoding:
    """How a role samples."""

    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Engine:
    """What generates tokens."""

    kind: Literal["transformers"] = "transformers"
    batch_size: int = 256  # sequences decoded at once
    cache_tokens: int = 262144  # size of the prefix cache
    dtype: Literal["float32", "bfloat16"] = "float32"


@dataclass(frozen=True)
class Sft:
    """Supervised fine-tuning on assistant tokens (Appendix A)."""

    epochs: int  # of the actor
    patient_epochs: int  # the patient is the checkpoint after these
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Rl:
    """Policy optimisation, shared by all methods (Appendix A)."""

    cases_per_update: int
    learning_rate: float
    checkpoint_every: int  # updates between checkpoints, each validated on the development set
    weight_decay: float = 0.01
    clip: float = 0.2
    max_gradient_norm: float = 1.0
    save_every: int = 10  # updates between resumable states
    tokens_per_micro_batch: int = 16384
    gap_alarm: float = 0.05  # largest tolerated |log pi_learner - log pi_engine| of a sampled token
    sampled_consultations: int = 8  # per update, kept to read


@dataclass(frozen=True)
class Method:
    """A method or control; see `config/methods.yaml`."""

    title: str
    kind: Literal["sft", "rl"] = "rl"
    role: Literal["method", "control"] = "method"
    terminal_group: int = 4  # G_T, complete consultations per case
    question_group: int = 0  # G_Q, candidate responses per supervised state; 0 draws none
    question_credit: Literal["none", "same_state", "executed_local"] = "none"
    supervise: Literal["all", "executed"] = "all"  # whose question tokens receive credit
    beta: float = 0.0  # weight of the question loss
    kl_coefficient: float = 0.001
    updates: int = 222
    runs: tuple[str, ...] = ("A", "B", "C")

    def __post_init__(self):
        if self.question_credit != "none" and self.question_group < 2:
            raise ValueError("question credit needs question_group >= 2 candidates to compare")
        if self.question_credit == "none" and self.beta:
            raise ValueError("beta weighs a question loss, but question_credit is none")
        if self.question_credit == "executed_local" and self.supervise != "executed":
            raise ValueError("executed_local credits executed questions: set supervise: executed")


@dataclass(frozen=True)
class Tracking:
    """The MLflow mirror."""

    uri: str = "sqlite:///results/mlflow.db"
    consultations_as_traces: int = 4  # per run
    timeout_seconds: float = 20.0


@dataclass(frozen=True)
class Continuation:
    """The continuation study (Section 4.4): does utility predict downstream success?"""

    method: str = "pcqc"  # whose policy asks and continues
    run: str = "A"
    reference: str | None = "shared_sft"  # a method studied likewise, in its first run; or none
    states: int = 128  # development cases, each at its initial state
    candidates: int = 4  # questions fixed at each state, the first of them the executed one
    continuations: int = 8  # of each candidate
    seed: int = 0
    review: str | None = None  # CSV of manual judgements on answers, which override the judge's

    def __post_init__(self):
        if min(self.states, self.continuations) < 1 or self.candidates < 2:
            raise ValueError("needs states >= 1, candidates >= 2 and continuations >= 1")


@dataclass(frozen=True)
class Study:
    """One study: what is compared, on what, with which sizes."""

    name: str
    title: str
    synthetic: bool
    benchmarks: dict[str, Benchmark]
    protocol: Protocol
    actor_decoding: Decoding
    patient_decoding: Decoding
    sft: Sft
    rl: Rl
    runs: dict[str, int]  # letter -> seed of an independent RL run
    methods: dict[str, Method]
    evaluation_seed: int
    clinic: Clinic | None = None
    scratch_model: ScratchModel | None = None
    continuation: Continuation | None = None
    engine: Engine = field(default_factory=Engine)
    tracking: Tracking = field(default_factory=Tracking)

    @property
    def results(self) -> Path:
        """Folder of the study's results, below the working directory."""
        return Path("results") / self.name

    @property
    def development(self) -> str:
        """Name of the benchmark on which checkpoints are chosen."""
        return next(n for n, b in self.benchmarks.items() if b.role == "development")

    @property
    def continued(self) -> list[tuple[str, str]]:
        """Method and run of every policy in the continuation study; none without that study."""
        if self.continuation is None:
            return []
        pairs = [(self.continuation.method, self.continuation.run)]
        if reference := self.continuation.reference:
            pairs.append((reference, self.method(reference).runs[0]))
        return pairs

    def method(self, name: str) -> Method:
        """The method's settings; UserError with the nearest name where there is none."""
        if name not in self.methods:
            raise UserError(
                f"no method '{name}' in study '{self.name}'{nearest(name, self.methods)}"
            )
        return self.methods[name]

    def seed(self, run: str) -> int:
        """Seed of a run; UserError where the study has no such run."""
        if run not in self.runs:
            raise UserError(f"no run '{run}' in study '{self.name}'{nearest(run, self.runs)}")
        return self.runs[run]

    def to_dict(self) -> dict:
        """All settings as plain data."""
        return dataclasses.asdict(self)


def load_study(name_or_path: str | Path) -> Study:
    """Load a study by name (`config/studies/<name>.yaml`) or by path, with its methods.

    Raises:
        UserError: an unknown study, an unknown, missing or mistyped setting, or settings that
            contradict each other.
    """
    path = _study_path(str(name_or_path))
    data = read_yaml(path)
    overrides = data.pop("methods", {})
    if not isinstance(overrides, dict):
        raise UserError(f"{path}: methods: must be a group of methods, not {overrides!r}")
    methods_path = ROOT / "config" / "methods.yaml"
    entries = read_yaml(methods_path)
    for name, override in overrides.items():
        if name not in entries:
            raise UserError(f"{path}: methods: unknown method '{name}'{nearest(name, entries)}")
        if not isinstance(override, dict):
            raise UserError(
                f"{path}: methods.{name}: must be a group of settings, not {override!r}"
            )
        entries[name] = {**entries[name], **override}
    methods = {n: build(Method, entry, f"{methods_path.name}: {n}") for n, entry in entries.items()}
    data.setdefault("name", path.stem)
    settings = build(_StudyFile, data, path.name)
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    study = Study(**values, methods=methods)
    _check(study, path.name)
    return study


_StudyFile = dataclasses.make_dataclass(
    "_StudyFile",
    [(f.name, f.type, f) for f in dataclasses.fields(Study) if f.name != "methods"],
    frozen=True,
)


def digest(settings: object) -> str:
    """Fingerprint of plain data or of a settings dataclass (sha256, 16 hex digits)."""
    if dataclasses.is_dataclass(settings):
        settings = dataclasses.asdict(settings)
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tracking_uri(study: Study) -> str:
    """Where MLflow keeps its store; the environment's `MLFLOW_TRACKING_URI` wins."""
    return os.environ.get("MLFLOW_TRACKING_URI") or study.tracking.uri


def _study_path(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    folder = ROOT / "config" / "studies"
    known = sorted(p.stem for p in folder.glob("*.yaml"))
    if name not in known:
        raise UserError(f"no study '{name}' in {folder.relative_to(ROOT)}/{nearest(name, known)}")
    return folder / f"{name}.yaml"


def _check(study: Study, where: str) -> None:
    roles = [b.role for b in study.benchmarks.values()]
    if roles.count("development") != 1:
        raise UserError(f"{where}: benchmarks: exactly one must have the role 'development'")
    for name, method in study.methods.items():
        for run in method.runs:
            if run not in study.runs:
                raise UserError(
                    f"{where}: method '{name}' names the run '{run}'{nearest(run, study.runs)}"
                )
    if study.synthetic and not (study.clinic and study.scratch_model):
        raise UserError(
            f"{where}: a synthetic study needs the settings 'clinic' and 'scratch_model'"
        )
    if study.synthetic:
        _check_clinic(study, where)
    if study.protocol.action_tokens > study.protocol.response_tokens:
        raise UserError(f"{where}: protocol.action_tokens exceeds protocol.response_tokens")
    if study.actor_decoding.max_tokens != study.protocol.action_tokens:
        raise UserError(f"{where}: actor_decoding.max_tokens must equal protocol.action_tokens")
    for name, run in study.continued:
        if run not in study.method(name).runs:
            raise UserError(f"{where}: continuation: method '{name}' has no run '{run}'")
    if not 1 <= study.sft.patient_epochs <= study.sft.epochs:
        raise UserError(f"{where}: sft.patient_epochs must lie between 1 and sft.epochs")


def _check_clinic(study: Study, where: str) -> None:
    clinic = study.clinic
    if clinic.typical > clinic.findings:
        raise UserError(f"{where}: clinic.typical exceeds clinic.findings")
    for name, benchmark in study.benchmarks.items():
        if benchmark.cases is None:
            raise UserError(f"{where}: benchmarks.{name}: the setting 'cases' is missing; add it")
        if not all(2 <= count <= clinic.diseases for count in benchmark.options):
            raise UserError(
                f"{where}: benchmarks.{name}.options must lie between 2 and clinic.diseases"
            )
