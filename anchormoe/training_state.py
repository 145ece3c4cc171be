"""What a training run needs to go on after a stop, and a directory that keeps it (safetensors and JSON, no pickle)."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from anchormoe.errors import ModelError


@dataclass(slots=True)
class TrainingState:
    """After `epoch` epochs: weights, optimizer, the best weights so far, and what validation said each epoch."""

    epoch: int = 0
    model: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    validation: list[Tensor] = field(default_factory=list)
    curves: list[dict[str, float]] = field(default_factory=list)


class Checkpoints(Protocol):
    """Keeps the state of each named stage of a fit."""

    def load(self, stage: str) -> TrainingState | None: ...

    def save(self, stage: str, state: TrainingState) -> None: ...


class DirectoryCheckpoints:
    """One pair of files per stage; a new state replaces the old one at once, or not at all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, stage: str) -> TrainingState | None:
        tensors, facts = self._directory / f"{stage}.safetensors", self._directory / f"{stage}.json"
        if not facts.exists():
            return None
        try:
            return _unpacked(load_file(tensors), json.loads(facts.read_text()))
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise ModelError(f"checkpoint {facts} cannot be read: {error}") from error

    def save(self, stage: str, state: TrainingState) -> None:
        """1. remove the old facts 2. write the tensors 3. write the facts: facts without tensors never exist."""
        self._directory.mkdir(parents=True, exist_ok=True)
        facts = self._directory / f"{stage}.json"
        facts.unlink(missing_ok=True)
        save_file(_packed(state), self._directory / f"{stage}.safetensors")
        waiting = facts.with_suffix(".part")
        waiting.write_text(json.dumps({"epoch": state.epoch, "curves": state.curves}))
        os.replace(waiting, facts)


def _packed(state: TrainingState) -> dict[str, Tensor]:
    packed = {}
    for part in ("model", "optimizer", "best"):
        packed.update({f"{part}/{name}": value.contiguous() for name, value in getattr(state, part).items()})
    packed.update({f"validation/{epoch}": value for epoch, value in enumerate(state.validation)})
    return packed


def _unpacked(tensors: dict[str, Tensor], facts: dict[str, object]) -> TrainingState:
    state = TrainingState(epoch=int(str(facts["epoch"])))
    for key, value in tensors.items():
        part, name = key.split("/", 1)
        if part != "validation":
            getattr(state, part)[name] = value
    validated = sum(key.startswith("validation/") for key in tensors)
    state.validation = [tensors[f"validation/{epoch}"] for epoch in range(validated)]
    curves = facts["curves"]
    state.curves = [dict(figures) for figures in curves] if isinstance(curves, list) else []
    return state


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
