"""Resuming a training run: the checkpoints of its seeds in one directory, tied to its data and settings."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.atomic_file import replace_file
from anchormoe.cases import fingerprint
from anchormoe.errors import DataError
from anchormoe.evidence import Json
from anchormoe.training import distributed
from anchormoe.training.checkpoints import SUFFIX, Checkpoints, DirectoryCheckpoints, ReadOnlyCheckpoints
from anchormoe.training.task import FitTask

RUN_FILE = "run.json"


class RunCheckpoints:
    """`DIR/run.json` says what is trained; `DIR/seed-N/STAGE.safetensors` is what a stage has done so far."""

    def __init__(self, directory: Path, task: FitTask, settings: Mapping[str, Json], *, resume: bool) -> None:
        """Without `resume`, checkpoints of an earlier run are removed. Raises DataError where they do not match."""
        self._directory = directory
        self._facts = _facts(task, settings)
        self._resume = resume
        if resume:
            self._require_same_run()
        elif distributed.rank() == 0:
            self.remove()

    @staticmethod
    def exist(directory: Path) -> bool:
        """True where a run has left checkpoints."""
        return (directory / RUN_FILE).exists()

    def for_seed(self, seed: int) -> Checkpoints | None:
        """Only rank 0 writes; the other processes read, and only to resume."""
        checkpoints = DirectoryCheckpoints(self._directory / f"seed-{seed}")
        if distributed.rank() > 0:
            return ReadOnlyCheckpoints(checkpoints) if self._resume else None
        self._directory.mkdir(parents=True, exist_ok=True)
        replace_file(self._directory / RUN_FILE, json.dumps(self._facts, sort_keys=True).encode())
        return checkpoints

    def stages(self) -> list[str]:
        """What a resumed run would start from, as `seed-N: STAGE`."""
        return sorted(f"{file.parent.name}: {file.stem}" for file in self._files())

    def remove(self) -> None:
        """Removes the run's own files, and the directories that are then empty."""
        files = self._files()
        for path in (*files, self._directory / RUN_FILE):
            path.unlink(missing_ok=True)
        for path in (*{file.parent for file in files}, self._directory):
            with suppress(OSError):  # it holds something else, or was never made
                path.rmdir()

    def _files(self) -> list[Path]:
        return list(self._directory.glob(f"seed-*/*{SUFFIX}"))

    def _require_same_run(self) -> None:
        try:
            facts = json.loads((self._directory / RUN_FILE).read_text())
        except FileNotFoundError:
            raise DataError(f"{self._directory}: there are no checkpoints to resume from") from None
        except ValueError as error:
            raise DataError(f"{self._directory / RUN_FILE}: not JSON: {error}") from error
        other = [name for name, value in self._facts.items() if facts.get(name) != value]
        if other:
            raise DataError(f"{self._directory}: the checkpoints are of a run with other {' and '.join(other)}")


def _facts(task: FitTask, settings: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "settings": dict(settings),
        "data": fingerprint(task.cases, task.y),
        "groups": _digest(task.groups),
        "ends": _digest(task.ends),
        "sample_weight": _digest(task.sample_weight),
        "test": None if task.test is None else fingerprint(*task.test),
    }


def _digest(values: NDArray[Any] | None) -> str | None:
    return None if values is None else hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
