"""A finished kernel fit as a checkpoint: to resume without fitting again, and to send to other processes."""

from collections.abc import Callable

import numpy as np
import torch

from anchormoe.cases import Float64
from anchormoe.kernels.source import NAME, KernelSource
from anchormoe.training.checkpoints import Checkpoints, StageCheckpoint, prefix_tensors
from anchormoe.training.task import SourceFit

KernelFit = SourceFit[KernelSource]
STAGE = "kernel"


def load_or_fit(checkpoints: Checkpoints | None, fit: Callable[[], KernelFit]) -> KernelFit:
    """The fit that an earlier run finished, or a new one, which is stored."""
    if checkpoints is None:
        return fit()
    checkpoint = checkpoints.load(STAGE)
    if checkpoint is None:
        checkpoint = to_checkpoint(fit())
        checkpoints.save(STAGE, checkpoint)
    return from_checkpoint(checkpoint)


def load_or_compute(checkpoints: Checkpoints | None, stage: str, compute: Callable[[], Float64]) -> Float64:
    """The same for a single array."""
    if checkpoints is None:
        return compute()
    checkpoint = checkpoints.load(stage)
    if checkpoint is None:
        checkpoint = StageCheckpoint({"values": torch.from_numpy(np.ascontiguousarray(compute()))})
        checkpoints.save(stage, checkpoint)
    return np.asarray(checkpoint.tensors["values"].numpy())


def to_checkpoint(fit: KernelFit) -> StageCheckpoint:
    """Everything that `from_checkpoint` needs."""
    # Copies: banks may share an array, such as their channels, and safetensors refuses tensors that share memory.
    source = {name: torch.from_numpy(np.array(array, order="C")) for name, array in fit.source.tensors().items()}
    logits = torch.from_numpy(np.ascontiguousarray(fit.oof_logits))
    return StageCheckpoint(
        prefix_tensors(source=source, oof={"logits": logits}), {"config": fit.source.config(), "report": fit.report}
    )


def from_checkpoint(checkpoint: StageCheckpoint) -> KernelFit:
    """Used for a new fit as well, so that a resumed run and an uninterrupted one continue with the same values."""
    tensors = {name: tensor.numpy() for name, tensor in checkpoint.group("source").items()}
    source = KernelSource.from_parts(checkpoint.facts["config"], tensors)
    return SourceFit(NAME, source, checkpoint.group("oof")["logits"].numpy(), dict(checkpoint.facts["report"]))
