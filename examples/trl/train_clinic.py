"""Train a clinic's doctor with TRL: `python examples/trl/train_clinic.py [pcqc|terminal_only]`.

The published doctor, patient and scorer of `models/clinic-1`; consultations and credit by this
package, the learning by TRL. `pcqc` has question credit, `terminal_only` none.
"""

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from datasets import Dataset
from from_pcqc import rows_of
from trl import GRPOConfig

from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.engines.transformers import TransformersEngine
from pcqc.evaluation.benchmark import evaluate
from pcqc.methods.base import Services
from pcqc.models.folder import load_model, load_tokenizer
from pcqc.models.pretrained import install
from pcqc.roles import Actor, Patient, Scorer
from pcqc_clinic.build import TRAINING, draw_cases, key_of_case
from pcqc_clinic.world import make_world
from pcqc_study.study_file import Study, load_study
from turn_credit.adapters.trl import PCQCTrainer


@dataclass(frozen=True)
class Clinic:
    """What consultations are held with: the study, its roles, training and validation cases."""

    study: Study
    context: RolloutContext
    scorer: Scorer
    train: list[Case]
    development: list[Case]


def open_clinic(updates: int, cases: int, validation: int) -> Clinic:
    """The quick study's world and roles, with cases for some updates and a validation."""
    study = load_study("clinic")
    world, seed = make_world(study.clinic), study.clinic.seed
    training = replace(TRAINING, cases=updates * cases)
    train = draw_cases(world, seed, "train", training)
    benchmark = replace(study.benchmarks[study.development], cases=validation)
    development = draw_cases(world, seed, "dev", benchmark, before=map(key_of_case, train))
    with tempfile.TemporaryDirectory() as folder:
        engines = {}
        for role in ("actor", "patient", "scorer"):
            install(study.pretrained[study.starts_from(role)], Path(folder, role))
            engines[role] = TransformersEngine(load_model(Path(folder, role)))
        chat = ChatFormat(load_tokenizer(Path(folder, "actor")), study.clinic.instruction)
    # The policy itself is sampled, in rollouts and in validation.
    actor = Actor(engines["actor"], chat, replace(study.actor_decoding, top_p=1.0))
    patient = Patient(engines["patient"], chat, study.patient_decoding)
    context = RolloutContext(actor, patient, chat, study.protocol)
    return Clinic(study, context, Scorer(engines["scorer"], chat.tokenizer), train, development)


def train(name: str, updates: int = 12, cases: int = 16, validation: int = 200):
    """Train the method's doctor: accuracy on validation cases before, after, and the trainer."""
    clinic = open_clinic(updates, cases, validation)
    context, engine = clinic.context, clinic.context.actor.engine
    method = replace(clinic.study.method(name), kl_coefficient=0.0)

    def roll_out(numbers, trainer):
        engine.reset_cache()  # the weights are other ones
        batch = [clinic.train[number] for number in numbers]
        services, update = Services(None, 1, clinic.scorer), trainer.state.global_step
        rollouts = method.collect_rollouts(services, context, batch, update)
        return rows_of(rollouts.sequences, method.coefficients)

    def accuracy():
        engine.reset_cache()
        evaluation = evaluate(context, clinic.development, seed=0, benchmark="dev", labels={})
        return evaluation.summary()["accuracy"]

    rows = 26  # per case, on average at most: consultations, and candidates of the first one
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            folder, use_cpu=True, bf16=False, gradient_checkpointing=False, seed=1,
            per_device_train_batch_size=cases, gradient_accumulation_steps=rows,
            num_generations=rows,
            max_completion_length=4096, max_steps=updates, weight_decay=0.01,
            learning_rate=clinic.study.rl.learning_rate, lr_scheduler_type="constant",
            beta=0.0, loss_type="dapo",
            save_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        data = Dataset.from_dict({"prompt": list(map(str, range(updates * cases)))})
        trainer = PCQCTrainer(
            lambda prompts, t: roll_out(map(int, prompts), t), model=engine.model, args=settings,
            train_dataset=data, processing_class=context.chat.tokenizer,
        )  # fmt: skip
        before = accuracy()
        trainer.train()
    return before, accuracy(), trainer


if __name__ == "__main__":
    for name in sys.argv[1:] or ["pcqc", "terminal_only"]:
        before, after, _ = train(name)
        print(f"{name}: {100 * before:.1f} % right before, {100 * after:.1f} % after training")
