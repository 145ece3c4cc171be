"""Checkpoints of a long fit: what each stage has done so far, to resume from (safetensors, no pickle)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from anchormoe.atomic_file import replace_file
from anchormoe.errors import ModelError
from anchormoe.evidence import Json

SUFFIX = ".safetensors"
_FACTS = "//facts"
"""Cannot be a tensor's name: the names of groups and tensors are not empty."""


@dataclass(frozen=True, slots=True)
class StageCheckpoint:
    """The state of one stage; `facts` are JSON."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Json] = field(default_factory=dict)

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors called `name/…`, without that prefix."""
        prefix = f"{name}/"
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    def to_bytes(self) -> bytes:
        facts = torch.frombuffer(bytearray(json.dumps(dict(self.facts)).encode()), dtype=torch.uint8)
        return bytes(save({name: value.contiguous() for name, value in self.tensors.items()} | {_FACTS: facts}))

    @classmethod
    def from_bytes(cls, content: bytes) -> "StageCheckpoint":
        """Raises ModelError."""
        try:
            tensors = load(content)
            facts = json.loads(tensors.pop(_FACTS).numpy().tobytes())
        except (ValueError, KeyError, SafetensorError) as error:
            raise ModelError(f"not a checkpoint: {error}") from error
        return cls(tensors, facts)


class Checkpoints(Protocol):
    """Stores the state of each named stage of a fit."""

    def load(self, stage: str) -> StageCheckpoint | None: ...

    def save(self, stage: str, checkpoint: StageCheckpoint) -> None: ...


class DirectoryCheckpoints:
    """One file per stage, replaced atomically."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, stage: str) -> StageCheckpoint | None:
        path = self._path(stage)
        try:
            return StageCheckpoint.from_bytes(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ModelError) as error:
            raise ModelError(f"checkpoint {path} cannot be read: {error}") from error

    def save(self, stage: str, checkpoint: StageCheckpoint) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        replace_file(self._path(stage), checkpoint.to_bytes())

    def _path(self, stage: str) -> Path:
        return self._directory / f"{stage}{SUFFIX}"


class ReadOnlyCheckpoints:
    """For the processes other than rank 0: they resume from what it stored, and store nothing."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def load(self, stage: str) -> StageCheckpoint | None:
        return self._checkpoints.load(stage)

    def save(self, stage: str, checkpoint: StageCheckpoint) -> None:
        """Does nothing."""


def prefix_tensors(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of several groups in one mapping, as `group/name`; `StageCheckpoint.group` takes one out again."""
    return {f"{group}/{name}": value for group, own in groups.items() for name, value in own.items()}
