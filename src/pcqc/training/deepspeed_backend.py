"""A backend on DeepSpeed: weights, gradients and optimiser states divided among processes (ZeRO).

The optimiser is the AdamW that `adamw_backend` uses. DeepSpeed hands it, in every process, its part
of the weights in fp32, which at bf16 are the master copy of those that the module computes with.
"""

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pcqc.config import LearnerPlacement, Rl, Sft
from pcqc.errors import UserError
from pcqc.processes import Processes
from pcqc.training.batching import Padded
from pcqc.training.token_trees import nothing

MOMENTS = ("exp_avg", "exp_avg_sq")
# Gradients are reduced so many at a time; a buffer of that size is allocated in every update.
BUCKET = 500_000_000
# Beyond any run's updates: DeepSpeed's own progress lines would stand beside ours.
NEVER = 10**9


class DeepSpeedBackend:
    """See `Backend`.

    Args:
        module: the same in every process; in bf16 or fp32.
        learning_rate: constant.
        settings: weight decay, gradient clipping.
        placement: ZeRO stage, offload, gradient checkpointing.
        processes: that share the work.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        learning_rate: float,
        settings: Rl | Sft,
        placement: LearnerPlacement,
        processes: Processes,
    ):
        self.module, self.learning_rate, self.processes = module, learning_rate, processes
        self.stage = placement.zero
        self.whole = self.stage < 3
        first = next(module.parameters())
        self.device, self.dtype = first.device, first.dtype
        self.deepspeed = _deepspeed(self.device)
        self.optimizer = torch.optim.AdamW(
            module.parameters(), lr=learning_rate, weight_decay=settings.weight_decay
        )
        self.steps, self.norm = 0, 0.0
        self.recomputed = _checkpointed_layers(module) if placement.gradient_checkpointing else []
        config = _config(placement, module)
        config["gradient_clipping"] = settings.max_gradient_norm
        if self.stage == 0 and self.dtype == torch.float32:
            self._clip_before_each_step(settings.max_gradient_norm)
            config["gradient_clipping"] = 0.0
        self.engine = self._initialized(module, config, optimizer=self.optimizer)
        self.state = DividedState(self)

    def forward(self, padded: Padded) -> torch.Tensor:
        """See `Backend.forward`."""
        with self._recomputing():
            return self.engine(padded)

    def backward(self, loss: torch.Tensor) -> None:
        """See `Backend.backward`; DeepSpeed takes the mean over processes, hence the factor."""
        self.engine.backward(loss * self.processes.count, scale_wrt_gas=False)

    def step(self, rate: float = 1.0) -> float:
        """See `Backend.step`."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate * self.learning_rate
        self.engine.step()
        norm = self.engine.get_global_grad_norm()
        norm = self.norm if norm is None else float(norm)
        self.steps += norm < float("inf")
        return norm

    def frozen(self, module: torch.nn.Module) -> Callable[[Padded], torch.Tensor]:
        """See `Backend.frozen`."""
        if self.whole:
            return module
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        config = _config(LearnerPlacement(devices=(), zero=3), module)
        return self._initialized(module, config)

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """See `Backend.weights`."""
        for name, parameter in self.module.named_parameters():
            with self.gathered(parameter):
                yield name, parameter

    def gathered(self, parameter, changed_by: int | None = None) -> AbstractContextManager:
        """A weight made whole; what process `changed_by` does to it is told to all."""
        if self.whole:
            return nullcontext()
        return self.deepspeed.zero.GatheredParameters([parameter], modifier_rank=changed_by)

    def _initialized(self, module: torch.nn.Module, config: dict, **others):
        """DeepSpeed's engine of a module, without what DeepSpeed prints on the way."""
        with redirect_stdout(io.StringIO()):
            return self.deepspeed.initialize(model=module, config=config, **others)[0]

    def _clip_before_each_step(self, most: float) -> None:
        """For DeepSpeed's stage 0 in fp32, which would not tell the norm and step regardless."""

        def clip(*_) -> None:
            parameters = list(self.module.parameters())
            self.norm = float(torch.nn.utils.clip_grad_norm_(parameters, most))
            if not self.norm < float("inf"):
                for parameter in parameters:
                    parameter.grad = None

        self.optimizer.register_step_pre_hook(clip)

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Layers recompute while they are trained: elsewhere it would cost them their caches.

        A layer takes note of its own flag alone, so that nothing within it changes its behaviour.
        """
        layers = self.recomputed if torch.is_grad_enabled() else []
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False


class DividedState:
    """Master weights and moments in one file per process, each whole parameters of it.

    Nothing in the files depends on how the processes divided them, so that another number of
    processes, or another stage of ZeRO, goes on from them.

    Args:
        backend: whose state it is.
    """

    def __init__(self, backend: DeepSpeedBackend):
        self.backend = backend

    def write(self, folder: Path) -> None:
        """See `Part.write`; every process writes its file, all gather each parameter in turn."""
        rank, count = self.backend.processes.rank, self.backend.processes.count
        kept = {"steps": torch.tensor(self.backend.steps)}
        names = ("weight", *MOMENTS) if self.backend.steps else ("weight",)
        for number, (name, parameter) in enumerate(self.backend.module.named_parameters()):
            for key in names:
                value = self._whole(number, parameter, key)
                if number % count == rank:
                    kept[f"{name}/{key}"] = value.detach().to("cpu", copy=True).contiguous()
        save_file(kept, folder / f"part-{rank:04d}.safetensors")

    def read(self, folder: Path) -> None:
        """See `Part.read`.

        Raises:
            UserError: the folder holds the state of a run in one process without DeepSpeed.
        """
        files = sorted(folder.glob("part-*.safetensors"))
        if not files:
            raise UserError(
                f"{folder}: the run was begun without placement.learner and cannot go on with it; "
                "take the setting out, or remove the run's folder 'state' to start afresh"
            )
        numbers = {name: n for n, (name, _) in enumerate(self.backend.module.named_parameters())}
        parameters = dict(self.backend.module.named_parameters())
        for file in files:
            with safe_open(file, "pt") as tensors:
                self._begin(int(tensors.get_tensor("steps")))
                for name in sorted(set(tensors.keys()) - {"steps"}):
                    parameter, key = name.rsplit("/", 1)
                    value = tensors.get_tensor(name).to(self.backend.device)
                    self._take(numbers[parameter], parameters[parameter], key, value)

    def _begin(self, steps: int) -> None:
        """Make an optimiser that has taken so many steps; their moments are to be filled in."""
        backend = self.backend
        if steps and not backend.steps:
            # An optimiser has moments from its first step on: this one moves nothing.
            backend.backward(0 * backend.forward(nothing(backend.device)).sum())
            backend.step(rate=0.0)
        backend.steps = steps
        for state in backend.optimizer.state.values():
            state["step"].fill_(steps)

    def _whole(self, number: int, parameter, key: str) -> torch.Tensor:
        """The fp32 weight or a moment of a parameter, whole in every process."""
        utils = self.backend.deepspeed.utils
        if self.backend.stage == 0:
            return self._undivided(number, key)
        if key == "weight":
            return utils.safe_get_full_fp32_param(parameter)
        return utils.safe_get_full_optimizer_state(parameter, key)

    def _take(self, number: int, parameter, key: str, value: torch.Tensor) -> None:
        """Set what `_whole` gives; with the fp32 weight also the one that is computed with."""
        utils = self.backend.deepspeed.utils
        if self.backend.stage == 0:
            self._undivided(number, key).data.copy_(value)
        elif self.backend.whole and key == "weight":
            utils.safe_set_full_fp32_param(parameter, value)
        elif self.backend.whole:
            utils.safe_set_full_optimizer_state(parameter, value, key)
        elif key == "weight":
            utils.safe_set_local_fp32_param(parameter, self._own(parameter, value))
        else:
            utils.safe_set_local_optimizer_state(parameter, self._own(parameter, value), key)
        if key == "weight":
            with self.backend.gathered(parameter, changed_by=0):
                parameter.data.copy_(value)

    def _undivided(self, number: int, key: str) -> torch.Tensor:
        """At stage 0 the optimiser holds the parameters, or fp32 copies, in the module's order."""
        held = [p for group in self.backend.optimizer.param_groups for p in group["params"]]
        return held[number] if key == "weight" else self.backend.optimizer.state[held[number]][key]

    def _own(self, parameter, value: torch.Tensor) -> torch.Tensor:
        """This process's part of a whole tensor; the last part is filled up with zeros."""
        size = parameter.ds_tensor.numel()
        padded = torch.nn.functional.pad(
            value.flatten(), (0, size * self.backend.processes.count - value.numel())
        )
        return padded.narrow(0, size * self.backend.processes.rank, size)


def _config(placement: LearnerPlacement, module: torch.nn.Module) -> dict:
    """DeepSpeed's settings: whole steps are ours to end, and sums are in fp32."""
    bfloat16 = next(module.parameters()).dtype == torch.bfloat16
    size = sum(parameter.numel() for parameter in module.parameters())
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "steps_per_print": NEVER,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": bfloat16, "check_grad_overflow": True},
        "communication_data_type": "fp32",
        "zero_optimization": {
            "stage": placement.zero,
            "overlap_comm": False,
            "reduce_bucket_size": min(size, BUCKET),
        },
    }
    if placement.zero or not bfloat16:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if placement.offload == "optimizer":
        config["zero_optimization"]["offload_optimizer"] = {
            "device": "cpu",
            "pin_memory": torch.cuda.is_available(),
        }
    return config


def _checkpointed_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers that recompute in the backward pass what they would else keep."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    for part in module.modules():
        if hasattr(part, "gradient_checkpointing_enable"):
            part.gradient_checkpointing_enable({"use_reentrant": False})
            break
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def _deepspeed(device: torch.device):
    """The package, silent but for errors. UserError where it is not installed."""
    if device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        import deepspeed
        import deepspeed.ops
        from deepspeed.utils import logger
    except ImportError as problem:
        raise UserError(f"DeepSpeed cannot be imported ({problem}); run `make env`") from problem
    logger.setLevel(logging.ERROR)
    # Names in torch that DeepSpeed has yet to follow.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\..*")
    if device.type == "cpu":
        # It would be compiled here, for a little speed among processes of one machine.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo" if device.type == "cpu" else "nccl")
    return deepspeed
