"""Training batches of a committee: each member has its own cases, order, noise and missing spans."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Int64
from anchormoe.evidence import Json
from anchormoe.experts.augmentation import draw_kept, draw_noise, draw_shifts, rotate
from anchormoe.experts.net import CommitteeNet, positions_in
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Series, levels_for_members, valid_tokens
from anchormoe.training.checkpoints import StageCheckpoint


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Prepared series of the channels that any member reads, and which cases each member trains on."""

    series: Series
    read: Tensor
    """(G, R) indices of the channels that each member reads"""
    level_mean: Tensor
    """(C, 2) of the summaries"""
    level_scale: Tensor
    """(C, 2)"""
    y: Tensor
    """(N,) classes"""
    weight: Tensor
    """(N,)"""
    trained: Bool
    """(G, N)"""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch per member, (G, B, …): the indices of its cases, and everything but their series."""

    index: Tensor
    length: Tensor
    """(G, B) coarse steps"""
    summary: Tensor
    """(G, B, R, 2), standardised: they vary so little that their weights would otherwise stay too small to matter"""
    present: Tensor
    """(G, B, R)"""
    y: Tensor
    weight: Tensor

    def every_nth(self, step: int, first: int) -> "Batch":
        """Every `step`-th case, from `first` on."""
        return Batch(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


@dataclass(frozen=True, slots=True)
class Draws:
    """Random changes of one training step: shifts (G, B) in steps, noise and what is kept (G, B, R, S)."""

    shift: Tensor
    noise: Tensor
    kept: Tensor

    def every_nth(self, step: int, first: int) -> "Draws":
        return Draws(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


@dataclass(frozen=True, slots=True)
class Reading:
    """What the tokens of a batch read: x and deviation (G, B, R, S), valid tokens (G, B, R, P), positions (G, B)."""

    x: Tensor
    deviation: Tensor
    valid: Tensor
    positions: Tensor


class Batches:
    """An endless sequence of batches. To resume it takes the states of both random generators and the waiting cases."""

    def __init__(self, net: CommitteeNet, data: TrainingSet, size: int, settings: CommitteeSettings, seed: int) -> None:
        self._net, self._data, self._size, self._settings = net, data, size, settings
        self._generator = torch.Generator().manual_seed(seed)
        self._rng = np.random.default_rng(seed)
        self._cases = [np.flatnonzero(trained) for trained in data.trained]
        self._waiting: list[Int64] = [np.empty(0, np.int64) for _ in data.trained]
        self._complete = bool(data.series.mask.all())
        self._held_out = _evenly_spaced([np.flatnonzero(~trained) for trained in data.trained], size)

    def take(self) -> tuple[Batch, Draws]:
        orders = np.stack([self._next(member) for member in range(len(self._cases))])
        batch = self._batch(torch.from_numpy(orders).to(self._data.y.device))  # (G, B)
        return batch, self._draws(batch)

    def held_out(self) -> Batch | None:
        """Some cases that each member does not train on; None if a member trains on all cases."""
        if self._held_out is None:
            return None
        return self._batch(torch.from_numpy(self._held_out).to(self._data.y.device))

    def read(self, batch: Batch, draws: Draws | None = None) -> Reading:
        """Unchanged, or with random changes: rotated, disturbed, and with missing spans."""
        series, geometry = self._data.series, self._net.shape.geometry
        places = batch.index[:, :, None], self._data.read[:, None]
        level, mask = series.level[places], series.mask[places]
        deviation, valid = series.x[places] - level[..., None] * mask, series.valid[places]
        if draws is not None:
            length, shift = batch.length.flatten(), draws.shift.flatten()
            deviation = rotate(deviation.flatten(0, 1), length, shift).view_as(deviation)
            if not self._complete:
                mask = rotate(mask.flatten(0, 1), length, shift).view_as(mask)
            mask = mask & draws.kept
            deviation = (deviation + draws.noise) * mask
            valid = valid_tokens(mask, batch.length, geometry)
        x = levels_for_members(deviation, mask, level, self._settings.per_member("centre"))
        return Reading(x, deviation, valid.float(), positions_in(batch.length, geometry))

    def tensors(self) -> dict[str, Tensor]:
        waiting = {str(member): torch.from_numpy(cases.copy()) for member, cases in enumerate(self._waiting)}
        return {"generator": self._generator.get_state(), **waiting}

    def facts(self) -> Json:
        return self._rng.bit_generator.state

    def restore(self, checkpoint: StageCheckpoint) -> None:
        """The inverse of `tensors` (in the group `batches`) and `facts` (under `orders`)."""
        tensors = checkpoint.group("batches")
        self._generator.set_state(tensors.pop("generator"))
        self._waiting = [tensors[str(member)].numpy() for member in range(len(tensors))]
        self._rng.bit_generator.state = checkpoint.facts["orders"]

    def trained_cases(self, most: int) -> Batch:
        """Up to so many cases that each member trains on, repeated for members with fewer."""
        size = min(most, max(len(own) for own in self._cases))
        index = _evenly_spaced(self._cases, size)
        assert index is not None, "every member trains on a case"
        return self._batch(torch.from_numpy(index).to(self._data.y.device))

    def _next(self, member: int) -> Int64:
        """The next cases of a member: random orders of its cases one after the other, cut into batches."""
        waiting = self._waiting[member]
        while len(waiting) < self._size:
            waiting = np.concatenate((waiting, self._rng.permutation(self._cases[member])))
        self._waiting[member] = waiting[self._size :]
        return waiting[: self._size]

    def _batch(self, index: Tensor) -> Batch:
        data = self._data
        summary = (data.series.summary - data.level_mean) / data.level_scale
        places = index[:, :, None], data.read[:, None]
        return Batch(
            index=index,
            length=data.series.length[index],
            summary=summary[places],
            present=data.series.present[places],
            y=data.y[index],
            weight=data.weight[index],
        )

    def _draws(self, batch: Batch) -> Draws:
        settings, device = self._settings, batch.y.device
        size = torch.Size((*batch.index.shape, self._net.shape.read_channels, self._data.series.x.shape[-1]))
        shift = draw_shifts(batch.length, settings.shift, self._generator)
        noise = draw_noise(size, settings.noise, self._generator).to(device)
        lacks = torch.tensor(settings.per_member("absence"), device=device)
        return Draws(shift, noise, draw_kept(size, batch.length, settings.absence * lacks, self._generator))


def _evenly_spaced(cases: list[Int64], size: int) -> Int64 | None:
    """(G, size) of each member's cases, repeated where there are fewer; None if a member has none."""
    if not all(len(each) for each in cases):
        return None
    return np.stack([each[np.arange(size) * max(1, len(each) // size) % len(each)] for each in cases])
