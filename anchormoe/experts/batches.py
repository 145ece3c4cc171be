"""The batches a committee learns from: each member goes through its own cases, in its own order, with its own noise."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Int64
from anchormoe.checkpoints import Kept
from anchormoe.evidence import Json
from anchormoe.experts.augmentation import noisy, shifted
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Series, for_members


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Prepared series, standard summaries (N, 2·C), classes and case weights (N,), and who trains on what (G, N)."""

    series: Series
    summary: Tensor
    y: Tensor
    weight: Tensor
    trained: Bool


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch per member: x (G, B, C, S), the rest (G, B, …)."""

    x: Tensor
    valid: Tensor
    summary: Tensor
    y: Tensor
    weight: Tensor

    def every(self, step: int, first: int) -> "Batch":
        """Every `step`-th case, from `first` on."""
        return Batch(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


class Batches:
    """Endless. `generator` draws the noise, `rng` the orders; both and what waits are all there is to resume from."""

    def __init__(self, data: TrainingSet, size: int, settings: CommitteeSettings, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self._data, self._size, self._settings = data, size, settings
        self._rng = np.random.default_rng(seed)
        self._cases = [np.flatnonzero(trained) for trained in data.trained]
        self._waiting: list[Int64] = [np.empty(0, np.int64) for _ in data.trained]
        self._mask = None if bool(data.series.mask.all()) else data.series.mask
        self._held_out = _spaced([np.flatnonzero(~trained) for trained in data.trained], size)

    def take(self) -> Batch:
        orders = np.stack([self._next(member) for member in range(len(self._cases))])
        return self._batch(torch.from_numpy(orders).to(self._data.y.device))  # (G, B)

    def held_out(self) -> Batch | None:
        """Some cases that each member does not train on, as they are; None where a member trains on all."""
        if self._held_out is None:
            return None
        index = torch.from_numpy(self._held_out).to(self._data.y.device)
        series = self._data.series
        centre = self._settings.per_member("centre")
        return self._of(index, for_members(series.x[index], series.mask[index], series.level[index], centre))

    def tensors(self) -> dict[str, Tensor]:
        waiting = {str(member): torch.from_numpy(own.copy()) for member, own in enumerate(self._waiting)}
        return {"generator": self.generator.get_state(), **waiting}

    def facts(self) -> Json:
        return self._rng.bit_generator.state

    def restore(self, kept: Kept) -> None:
        """The opposite of `tensors` (in the group `batches`) and `facts` (under `orders`)."""
        tensors = kept.group("batches")
        self.generator.set_state(tensors.pop("generator"))
        self._waiting = [tensors[str(member)].numpy() for member in range(len(tensors))]
        self._rng.bit_generator.state = kept.facts["orders"]

    def _next(self, member: int) -> Int64:
        """Orders of the member's cases one after the other, cut into pieces."""
        waiting = self._waiting[member]
        while len(waiting) < self._size:
            waiting = np.concatenate((waiting, self._rng.permutation(self._cases[member])))
        self._waiting[member] = waiting[self._size :]
        return waiting[: self._size]

    def _batch(self, index: Tensor) -> Batch:
        series, settings = self._data.series, self._settings
        x = for_members(series.x[index], series.mask[index], series.level[index], settings.per_member("centre"))
        x = shifted(x.flatten(0, 1), series.length[index].flatten(), settings.shift, self.generator)
        mask = None if self._mask is None else self._mask[index].flatten(0, 1)
        x = noisy(x, mask, settings.noise, self.generator)
        return self._of(index, x.view(*index.shape, *x.shape[1:]))

    def _of(self, index: Tensor, x: Tensor) -> Batch:
        return Batch(
            x=x,
            valid=self._data.series.valid[index].float(),
            summary=self._data.summary[index],
            y=self._data.y[index],
            weight=self._data.weight[index],
        )


def _spaced(cases: list[Int64], size: int) -> Int64 | None:
    """(G, size) of each member's cases, evenly spaced, again from the start where there are fewer."""
    if not all(len(own) for own in cases):
        return None
    return np.stack([own[np.arange(size) * max(1, len(own) // size) % len(own)] for own in cases])
