"""What a gradient training loop needs to resume: weights, optimizer state, the best so far."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from anchormoe.errors import ModelError
from anchormoe.training.checkpoints import StageCheckpoint, prefix_tensors


@dataclass(slots=True)
class TrainingState:
    """After `epoch` epochs: weights, optimizer, the best weights so far, and the validation logits of each epoch."""

    epoch: int = 0
    model: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    validation: list[Tensor] = field(default_factory=list)
    curves: list[dict[str, float]] = field(default_factory=list)

    def to_checkpoint(self) -> StageCheckpoint:
        validation = {str(epoch): value for epoch, value in enumerate(self.validation)}
        tensors = prefix_tensors(model=self.model, optimizer=self.optimizer, best=self.best, validation=validation)
        return StageCheckpoint(tensors, {"epoch": self.epoch, "curves": self.curves})

    @classmethod
    def from_checkpoint(cls, checkpoint: StageCheckpoint) -> "TrainingState":
        """Raises ModelError when it is a checkpoint of something else."""
        group, facts = checkpoint.group, checkpoint.facts
        try:
            epoch, curves = int(facts["epoch"]), [dict(figures) for figures in facts["curves"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"the checkpoint is not one of a training loop: {error!r}") from error
        by_epoch = group("validation")
        validation = [by_epoch[str(epoch)] for epoch in range(len(by_epoch))]
        return cls(epoch, group("model"), group("optimizer"), group("best"), validation, curves)


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """AdamW's moments and step counts, as `parameter/name`."""
    moments = optimizer.state_dict()["state"]
    return {f"{i}/{key}": value.detach().cpu().clone() for i, own in moments.items() for key, value in own.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split("/", 1)
        moments.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
