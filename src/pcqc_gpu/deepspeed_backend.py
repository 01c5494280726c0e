"""A backend on DeepSpeed: weights, gradients and optimiser states sharded over processes (ZeRO).

The optimiser is the AdamW that `adamw_backend` uses. DeepSpeed hands it, in every process, its part
of the weights in fp32, which at bf16 are the master copy of those that the module computes with.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open

from pcqc.training.batching import Padded
from pcqc.training.token_trees import empty_batch
from pcqc_base.errors import UserError
from pcqc_base.settings import LearnerPlacement, Rl, Sft
from pcqc_base.system.processes import Processes
from pcqc_gpu.deepspeed_start import deepspeed_package, deepspeed_settings
from pcqc_gpu.host_memory import HostMemory

MOMENTS = ("exp_avg", "exp_avg_sq")
# Forms of a compiled layer, after which torch would compute others uncompiled: a policy's and a
# reference's, with gradients and without, again in the backward pass, of one row and of several,
# with a block mask and without.
FORMS = 24


class DeepSpeedBackend:
    """A module in training, sharded by DeepSpeed.

    Args:
        module: the same in every process; in bf16 or fp32.
        learning_rate: constant.
        settings: weight decay, gradient clipping.
        placement: ZeRO stage, offload, gradient checkpointing, compilation.
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
        self.unsharded = placement.zero < 3
        first = next(module.parameters())
        self.device, self.dtype = first.device, first.dtype
        self.deepspeed = deepspeed_package(self.device)
        self.optimizer = torch.optim.AdamW(
            module.parameters(), lr=learning_rate, weight_decay=settings.weight_decay
        )
        self.steps = 0
        self.host = HostMemory()
        self.compiled = placement.compile
        self.recomputed = _checkpointed_layers(module) if placement.gradient_checkpointing else []
        config = deepspeed_settings(placement, module)
        config["gradient_clipping"] = settings.max_gradient_norm
        self.engine = self._initialized(module, config, optimizer=self.optimizer)
        self.state = ShardedState(self)

    def forward(self, padded: Padded) -> torch.Tensor:
        """The module's output on a micro-batch."""
        with self._recomputing():
            return self.engine(padded)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the loss's gradient; DeepSpeed takes the mean over processes, hence the factor."""
        self.engine.backward(loss * self.processes.count, scale_wrt_gas=False)

    def step(self, rate: float = 1.0) -> float:
        """Clip the gradient, take a step, and return the norm before clipping."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate * self.learning_rate
        self.engine.step()
        norm = float(self.engine.get_global_grad_norm())
        self.steps += norm < float("inf")
        return norm

    def frozen(self, module: torch.nn.Module) -> Callable[[Padded], torch.Tensor]:
        """Forward of another module, sharded like this one, but never trained."""
        if self.unsharded:
            return self._compile(module)
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        config = deepspeed_settings(LearnerPlacement(devices=(), zero=3), module)
        return self._initialized(module, config)

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and unsharded tensors of the weights, each valid until the next is asked for."""
        for name, parameter in self.module.named_parameters():
            with self.gathered(parameter):
                yield name, parameter

    def gathered(self, parameter, changed_by: int | None = None) -> AbstractContextManager:
        """An unsharded weight; a change that process `changed_by` makes reaches all."""
        if self.unsharded:
            return nullcontext()
        return self.deepspeed.zero.GatheredParameters([parameter], modifier_rank=changed_by)

    def optimizer_on_host(self) -> AbstractContextManager[None]:
        """Inside it what only steps need is on the host; before the first step there is nothing."""
        tensors = [s[key] for s in self.optimizer.state.values() for key in MOMENTS if key in s]
        if self.dtype == torch.bfloat16:  # else the master weights may be the module's own
            tensors += [master.data for master in self.optimizer.state]
        return self.host.holding(t for t in tensors if t.device == self.device)

    def _initialized(self, module: torch.nn.Module, config: dict, **others):
        """DeepSpeed's engine of a module, with its output suppressed."""
        with redirect_stdout(io.StringIO()):
            model = self._compile(module)
            return self.deepspeed.initialize(model=model, config=config, **others)[0]

    def _compile(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module; its layers, which share their code, are compiled once, for all lengths.

        A compiled layer has its gradients in another order. From ZeRO 2 on DeepSpeed adds up the
        processes' gradients in the order in which they come, and would mix them up where one
        process has compiled what another has not yet.
        """
        if self.compiled:
            torch._dynamo.config.recompile_limit = FORMS
            for layer in _layers(module):
                layer.compile(dynamic=True)
        return module

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Layers recompute only where there are gradients: elsewhere they would lose their caches.

        Only the layer's own flag is set, so that no module inside it changes its behaviour.
        """
        layers = self.recomputed if torch.is_grad_enabled() else []
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False


class ShardedState:
    """Master weights and moments, one file per process, each of whole parameters.

    The files do not depend on how the processes sharded them, so another number of processes or
    another stage of ZeRO can resume from them.

    Args:
        backend: whose state it is.
    """

    def __init__(self, backend: DeepSpeedBackend):
        self.backend = backend

    def files(self) -> dict[str, dict[str, torch.Tensor]]:
        """This process's file -> its tensors; all processes gather each parameter in turn."""
        rank, count = self.backend.processes.rank, self.backend.processes.count
        kept = {"steps": torch.tensor(self.backend.steps)}
        names = ("weight", *MOMENTS) if self.backend.steps else ("weight",)
        for number, (name, parameter) in enumerate(self.backend.module.named_parameters()):
            for key in names:
                value = self._gathered(parameter, key)
                if number % count == rank:
                    kept[f"{name}/{key}"] = value.detach().to("cpu", copy=True).contiguous()
        return {f"part-{rank:04d}": kept}

    def read(self, folder: Path) -> None:
        """Take over the files of all processes.

        Raises:
            UserError: the folder holds the state of a run in one process without DeepSpeed.
        """
        files = sorted(folder.glob("part-*.safetensors"))
        if not files:
            raise UserError(
                f"{folder}: the run began without placement.learner and cannot resume with it; "
                "take the setting out, or remove the run's folder 'state' to start afresh"
            )
        parameters = dict(self.backend.module.named_parameters())
        for file in files:
            with safe_open(file, "pt") as tensors:
                self._begin(int(tensors.get_tensor("steps")))
                for name in sorted(set(tensors.keys()) - {"steps"}):
                    parameter, key = name.rsplit("/", 1)
                    value = tensors.get_tensor(name).to(self.backend.device)
                    self._take(parameters[parameter], key, value)

    def _begin(self, steps: int) -> None:
        """Make the optimiser state of this many steps; the moments are filled in later."""
        backend = self.backend
        if steps and not backend.steps:
            # An optimiser has moments only after a step; this one has rate 0.
            backend.backward(0 * backend.forward(empty_batch(backend.device)).sum())
            backend.step(rate=0.0)
        backend.steps = steps
        for state in backend.optimizer.state.values():
            state["step"].fill_(steps)

    def _gathered(self, parameter, key: str) -> torch.Tensor:
        """The fp32 weight or a moment of a parameter, gathered in every process."""
        utils = self.backend.deepspeed.utils
        if key == "weight":
            return utils.safe_get_full_fp32_param(parameter)
        return utils.safe_get_full_optimizer_state(parameter, key)

    def _take(self, parameter, key: str, value: torch.Tensor) -> None:
        """Set what `_gathered` returns; with the fp32 weight also that of the forward."""
        utils = self.backend.deepspeed.utils
        if self.backend.unsharded and key == "weight":
            utils.safe_set_full_fp32_param(parameter, value)
        elif self.backend.unsharded:
            utils.safe_set_full_optimizer_state(parameter, value, key)
        elif key == "weight":
            utils.safe_set_local_fp32_param(parameter, self._own(parameter, value))
        else:
            utils.safe_set_local_optimizer_state(parameter, self._own(parameter, value), key)
        if key == "weight":
            with self.backend.gathered(parameter, changed_by=0):
                parameter.data.copy_(value)

    def _own(self, parameter, value: torch.Tensor) -> torch.Tensor:
        """This process's shard of a tensor; the last one is padded with zeros."""
        size = parameter.ds_tensor.numel()
        padded = torch.nn.functional.pad(
            value.flatten(), (0, size * self.backend.processes.count - value.numel())
        )
        return padded.narrow(0, size * self.backend.processes.rank, size)


def _layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def _checkpointed_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers that recompute their activations in the backward pass."""
    for part in module.modules():
        if hasattr(part, "gradient_checkpointing_enable"):
            cast(Any, part).gradient_checkpointing_enable({"use_reentrant": False})
            break
    return _layers(module)
