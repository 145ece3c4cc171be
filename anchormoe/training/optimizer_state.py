"""What the gradient training loop needs to go on after a stop, and how it is kept."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from anchormoe.errors import ModelError
from anchormoe.training.checkpoints import StageCheckpoint, prefixed_checkpoints


@dataclass(slots=True)
class TrainingState:
    """After `epoch` epochs: weights, optimizer, the best weights so far, and what validation said each epoch."""

    epoch: int = 0
    model: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    validation: list[Tensor] = field(default_factory=list)
    curves: list[dict[str, float]] = field(default_factory=list)

    def kept(self) -> StageCheckpoint:
        validation = {str(epoch): value for epoch, value in enumerate(self.validation)}
        tensors = prefixed_checkpoints(
            model=self.model, optimizer=self.optimizer, best=self.best, validation=validation
        )
        return StageCheckpoint(tensors, {"epoch": self.epoch, "curves": self.curves})

    @classmethod
    def of(cls, kept: StageCheckpoint) -> "TrainingState":
        """Raises ModelError when something else was kept."""
        try:
            epoch, curves = int(kept.facts["epoch"]), [dict(figures) for figures in kept.facts["curves"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"a checkpoint holds no training run: {error!r}") from error
        validation = kept.group("validation")
        said = [validation[str(epoch)] for epoch in range(len(validation))]
        return cls(epoch, kept.group("model"), kept.group("optimizer"), kept.group("best"), said, curves)


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """AdamW's moments and step counts, flat."""
    moments = optimizer.state_dict()["state"]
    return {f"{i}/{key}": value.detach().cpu().clone() for i, own in moments.items() for key, value in own.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split("/", 1)
        moments.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
