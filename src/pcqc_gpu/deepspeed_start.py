"""How DeepSpeed starts: its settings, and the package itself, silent."""

import logging
import os
import warnings
from typing import Any

import torch

from pcqc_base.errors import UserError
from pcqc_base.settings import LearnerPlacement
from pcqc_base.settings.placement import BUCKET

# More than any run's updates: DeepSpeed prints no progress lines.
NEVER = 10**9


def deepspeed_settings(placement: LearnerPlacement, module: torch.nn.Module) -> dict:
    """DeepSpeed's settings: the caller ends each optimiser step, and sums are in fp32."""
    bfloat16 = next(module.parameters()).dtype == torch.bfloat16
    size = sum(parameter.numel() for parameter in module.parameters())
    config: dict[str, Any] = {
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
            # Below, DeepSpeed refuses it where the caller ends the steps.
            "overlap_comm": placement.zero >= 2,
            "reduce_bucket_size": min(size, BUCKET),
        },
        "data_types": {"grad_accum_dtype": "fp32"},
    }
    if placement.offload == "optimizer":
        config["zero_optimization"]["offload_optimizer"] = {
            "device": "cpu",
            "pin_memory": torch.cuda.is_available(),
        }
    return config


def deepspeed_package(device: torch.device):
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
    # DeepSpeed still uses deprecated names of torch.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\..*")
    if device.type == "cpu":
        # It would be compiled here, for a small gain between processes of one machine.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo" if device.type == "cpu" else "nccl")
    return deepspeed
