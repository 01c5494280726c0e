"""Time: FLOPs over the speed that the devices reach.

Seconds = FLOPs / (devices x peak x utilisation), on the devices of each role. Roles on the same
devices take turns; actor, patient and scorer on devices of their own work at the same time. The
learner waits for all. In rollouts batches are full only part of the time.
"""

from pcqc.settings import Method, Work
from pcqc_gpu.planning.architecture import BYTES, Architecture, architecture
from pcqc_gpu.planning.devices import device
from pcqc_gpu.planning.memory import engines, learner_memory
from pcqc_gpu.planning.storage import checkpoints, saved_gib, sync_gib
from pcqc_gpu.planning.work import FineTuning, evaluation_work, training_work
from pcqc_study.settings import Study


def run_cost(study: Study, method: Method) -> dict[str, float]:
    """Expected hours of a run by phase, validation of checkpoints included, and `gpu_hours`.

    `gpu_hours` are the sum of the phases times all allocated devices.
    """
    training, saved = training_work(study, method), checkpoints(study, method)
    development = study.benchmarks[study.development].cases or 0
    validation = evaluation_work(study, development * saved)
    hours = {
        "start": study.assumptions.start_seconds,
        "sync": _sync(study, method),
        **_consulting(study, training),
        "update": _update(study, method, training),
        "validation": sum(_consulting(study, validation).values()),
        "saving": _saving(study, method),
    }
    return _hours(study, hours)


def _consulting(study: Study, work: Work) -> dict[str, float]:
    """Seconds of actor, patient and scorer: what each adds to those before it."""
    alone = {
        "rollout": ("actor", _actor(study, work)),
        "patient": ("patient", _patient(study, work)),
        "scorer": ("scorer", _scorer(study, work)),
    }
    groups: list[tuple[set[int], float]] = []  # devices, and how long they work
    added, until = {}, 0.0
    for phase, (role, seconds) in alone.items():
        devices = set(engines(study)[role].devices) if role in engines(study) else set()
        shared = [group for group in groups if group[0] & devices]
        groups = [group for group in groups if not group[0] & devices]
        groups.append((devices.union(*(d for d, _ in shared)), seconds + sum(t for _, t in shared)))
        end = max(busy for _, busy in groups)
        added[phase], until = end - until, end
    return added


def sft_cost(study: Study, work: FineTuning) -> dict[str, float]:
    """Expected hours of a course of SFT, as in `run_cost`; its states are not counted."""
    learner, dtype = study.placement.learner, study.dtype(work.role)
    shape, passes = architecture(study, work.role)[1], 3 + learner.gradient_checkpointing
    forward = shape.forward_flops(work.trained_tokens, _mean_context(study), work.credited_tokens)
    update = _learning_seconds(study, passes * forward, dtype)
    return _hours(study, {"start": study.assumptions.start_seconds, "update": update})


def _hours(study: Study, seconds: dict[str, float]) -> dict[str, float]:
    hours = {name: value / 3600 for name, value in seconds.items()}
    return {**hours, "gpu_hours": sum(hours.values()) * study.placement.devices}


def _sync(study: Study, method: Method) -> float:
    """New weights in every update: copied on each GPU, or written once on each node, then read."""
    assumed, weights = study.assumptions, method.updates * sync_gib(study)
    if study.placement.device == "CPU" or study.placement.transfer == "files":
        return 2 * weights / assumed.sync_gib_per_second
    return weights / assumed.handles_gib_per_second


def _saving(study: Study, method: Method) -> float:
    """Checkpoints are written while all wait; of states only the copy is waited for."""
    assumed, processes = study.assumptions, len(study.placement.learner.devices)
    written, states = saved_gib(study, method)
    copied = states / processes / assumed.copying_gib_per_second
    return written / assumed.saving_gib_per_second + copied


def _actor(study: Study, work: Work) -> float:
    """A case's prompt and each answer are read once: the prefix cache holds shared prefixes."""
    assumed, shape = study.assumptions, architecture(study, "actor")[1]
    context = _mean_context(study)
    written = work.responses * assumed.action_tokens
    read = work.opened * assumed.prompt_tokens + work.answers * assumed.answer_tokens
    read += work.reread_tokens
    decoded = shape.forward_flops(written, context, written)
    flops = shape.forward_flops(read, context, 0)
    return _seconds(study, "actor", decoded, flops, written + read) / assumed.full_batches


def _patient(study: Study, work: Work) -> float:
    assumed, shape = study.assumptions, architecture(study, "patient")[1]
    prompt, written = assumed.patient_prompt_tokens, work.answers * assumed.answer_tokens
    decoded = shape.forward_flops(written, prompt, written)
    read = work.answers * prompt
    flops = shape.forward_flops(read, prompt / 2, 0)
    return _seconds(study, "patient", decoded, flops, written + read) / assumed.full_batches


def _scorer(study: Study, work: Work) -> float:
    """Each prompt is read whole; the output layer runs for one token."""
    if not work.scores:
        return 0.0
    shape, prompt = architecture(study, "scorer")[1], _mean_context(study)
    read = work.scores * prompt
    flops = shape.forward_flops(read, prompt / 2, work.scores)
    return _seconds(study, "scorer", decoded=0.0, read=flops, tokens=read)


def update_passes(method: Method, recomputed: bool) -> int:
    """Cost of a policy's update in forward passes over its training tokens.

    Forward and backward cost three (Kaplan et al. 2020, Section 2.1). One more each for the
    reference and, if an update takes several optimiser steps, for the probabilities before it.

    Args:
        method: whose update.
        recomputed: whether the pass that gradient checkpointing adds counts.
    """
    return 3 + recomputed + ("reference" in method.needs) + method.several_steps


def _update(study: Study, method: Method, work: Work) -> float:
    """The learner's passes over the trained tokens.

    A critic reads every state once in the search and is trained on the same tokens.
    """
    shape = architecture(study, "actor")[1]
    learner, dtype = study.placement.learner, study.dtype("actor")
    context, recomputed = _mean_context(study), learner.gradient_checkpointing
    forward = shape.forward_flops(work.trained_tokens, context, work.credited_tokens)
    flops = update_passes(method, recomputed) * forward
    if "critic" in method.needs:
        flops += (3 + recomputed + 1) * shape.forward_flops(work.trained_tokens, context, 0)
    return _learning_seconds(study, flops, dtype) + _moving(study, method)


def _moving(study: Study, method: Method) -> float:
    """A critic's optimiser goes to the host before the rollouts of an update, and then back."""
    if "critic" not in method.needs or study.placement.learner.offload != "critic":
        return 0.0
    moved = 2 * method.updates * learner_memory(study, "critic").update["optimiser"]
    return moved / study.assumptions.pinned_gib_per_second


def _learning_seconds(study: Study, flops: float, dtype: str) -> float:
    devices, peak = study.placement.learner.devices, device(study.placement.device).peak(dtype)
    return flops / (len(devices) * peak * study.assumptions.update_utilisation)


def _mean_context(study: Study) -> float:
    """Mean number of tokens before a token: the prompt, and half of what follows it."""
    assumed = study.assumptions
    dialogue = assumed.inquiries * (assumed.action_tokens + assumed.answer_tokens)
    return assumed.prompt_tokens + (dialogue + assumed.action_tokens) / 2


def _seconds(study: Study, role: str, decoded: float, read: float, tokens: float) -> float:
    """Seconds of a role's engine; 0 if a server elsewhere does its work.

    Args:
        study: settings.
        role: whose engine.
        decoded: FLOPs of the tokens that it generates.
        read: FLOPs of those that it reads.
        tokens: how many both are.
    """
    if role not in engines(study):
        return 0.0
    assumed, place = study.assumptions, engines(study)[role]
    peak = device(study.placement.device).peak(study.dtype(role)) * len(place.devices)
    computing = decoded / (peak * assumed.decoding_utilisation) + read / (
        peak * assumed.scoring_utilisation
    )
    copies = len(place.devices) / place.tensor_parallel
    shape, number = architecture(study, role)[1], BYTES[study.dtype(role)]
    summed = tokens * _summed_bytes(shape, number, place.tensor_parallel) / copies
    return computing + summed / device(study.placement.device).link


def _summed_bytes(shape: Architecture, number: int, split: int) -> float:
    """Bytes that each of the devices of a copy sends for a token: two sums in each layer.

    Shoeybi et al. 2019 (Megatron-LM, Section 3); a sum over n devices sends 2 (n - 1) / n of it.
    """
    return 2 * shape.layers * shape.width * number * 2 * (split - 1) / split
