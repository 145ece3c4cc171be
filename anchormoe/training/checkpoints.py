"""Where a long fit keeps what it has done, stage by stage, to be taken up again (safetensors and JSON, no pickle)."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file
from torch import Tensor

from anchormoe.errors import ModelError
from anchormoe.evidence import Json

_FACTS = "//facts"
"""No tensor is called so: names of groups and of tensors are not empty."""


@dataclass(frozen=True, slots=True)
class StageCheckpoint:
    """What one stage left behind; `facts` are JSON."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Json] = field(default_factory=dict)

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors called `name/…`, without that prefix."""
        return {
            key.removeprefix(f"{name}/"): value for key, value in self.tensors.items() if key.startswith(f"{name}/")
        }

    def to_bytes(self) -> Tensor:
        """All of it as bytes (N,), to be sent to another process."""
        facts = torch.frombuffer(bytearray(json.dumps(dict(self.facts)).encode()), dtype=torch.uint8)
        content = {name: value.contiguous() for name, value in self.tensors.items()} | {_FACTS: facts}
        return torch.frombuffer(bytearray(save(content)), dtype=torch.uint8)

    @staticmethod
    def of_bytes(message: Tensor) -> "StageCheckpoint":
        content = load(message.numpy().tobytes())
        facts = json.loads(content.pop(_FACTS).numpy().tobytes())
        return StageCheckpoint(content, facts)


class Checkpoints(Protocol):
    """Keeps what each named stage of a fit has done so far."""

    def load(self, stage: str) -> StageCheckpoint | None: ...

    def save(self, stage: str, kept: StageCheckpoint) -> None: ...


class DirectoryCheckpoints:
    """One pair of files per stage; what is new replaces what was there at once, or not at all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, stage: str) -> StageCheckpoint | None:
        facts = self._directory / f"{stage}.json"
        if not facts.exists():
            return None
        try:
            return StageCheckpoint(load_file(self._directory / f"{stage}.safetensors"), json.loads(facts.read_text()))
        except (OSError, ValueError, SafetensorError) as error:
            raise ModelError(f"checkpoint {facts} cannot be read: {error}") from error

    def save(self, stage: str, kept: StageCheckpoint) -> None:
        """1. remove the old facts 2. write the tensors 3. write the facts: facts without tensors never exist."""
        self._directory.mkdir(parents=True, exist_ok=True)
        facts = self._directory / f"{stage}.json"
        facts.unlink(missing_ok=True)
        save_file(
            {name: value.contiguous() for name, value in kept.tensors.items()}, self._directory / f"{stage}.safetensors"
        )
        waiting = facts.with_suffix(".part")
        waiting.write_text(json.dumps(dict(kept.facts)))
        os.replace(waiting, facts)


class ReadOnlyCheckpoints:
    """For the processes beside the first: they take up what it kept, and keep nothing themselves."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def load(self, stage: str) -> StageCheckpoint | None:
        return self._checkpoints.load(stage)

    def save(self, stage: str, kept: StageCheckpoint) -> None:
        """Nothing: the first process does it."""


def prefixed_checkpoints(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of several groups under one roof; `Kept.group` takes them apart again."""
    return {f"{group}/{name}": value for group, own in groups.items() for name, value in own.items()}
