"""A finished kernel fit as a checkpoint: kept at once, taken up again without fitting, or sent to other processes."""

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
    """What an earlier run finished, or a new fit, which is kept."""
    if checkpoints is None:
        return fit()
    kept = checkpoints.load(STAGE)
    if kept is None:
        kept = to_checkpoint(fit())
        checkpoints.save(STAGE, kept)
    return from_checkpoint(kept)


def load_or_compute(checkpoints: Checkpoints | None, stage: str, make: Callable[[], Float64]) -> Float64:
    """The same for a single array."""
    if checkpoints is None:
        return make()
    kept = checkpoints.load(stage)
    if kept is None:
        kept = StageCheckpoint({"values": torch.from_numpy(np.ascontiguousarray(make()))})
        checkpoints.save(stage, kept)
    return np.asarray(kept.tensors["values"].numpy())


def to_checkpoint(fit: KernelFit) -> StageCheckpoint:
    """Everything that `from_checkpoint` needs."""
    own = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in fit.source.tensors().items()}
    logits = torch.from_numpy(np.ascontiguousarray(fit.oof_logits))
    return StageCheckpoint(
        prefix_tensors(source=own, oof={"logits": logits}), {"config": fit.source.config(), "report": fit.report}
    )


def from_checkpoint(kept: StageCheckpoint) -> KernelFit:
    """Also of a fit that was just made: a run that is resumed and one that is not see the same values."""
    tensors = {name: tensor.numpy() for name, tensor in kept.group("source").items()}
    source = KernelSource.from_parts(kept.facts["config"], tensors)
    return SourceFit(NAME, source, kept.group("oof")["logits"].numpy(), dict(kept.facts["report"]))
