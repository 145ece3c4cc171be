"""Training batches of a committee: each member has its own cases, order and noise."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Int64
from anchormoe.evidence import Json
from anchormoe.experts.augmentation import draw_noise, draw_shifts, draw_visible, rotate
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Series, centre_for_members
from anchormoe.training.checkpoints import StageCheckpoint


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Prepared series, standardised summaries (N, 2·C), classes and case weights (N,), members' cases (G, N)."""

    series: Series
    summary: Tensor
    y: Tensor
    weight: Tensor
    trained: Bool


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch per member, (G, B, …): the indices of its cases, and everything but their series."""

    index: Tensor
    valid: Tensor
    summary: Tensor
    y: Tensor
    weight: Tensor

    def every_nth(self, step: int, first: int) -> "Batch":
        """Every `step`-th case, from `first` on."""
        return Batch(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


@dataclass(frozen=True, slots=True)
class Draws:
    """Random changes of one training step: shifts (G, B) in steps, noise (G, B, R, S), visible tokens (G, B, P)."""

    shift: Tensor
    noise: Tensor
    visible: Tensor

    def every_nth(self, step: int, first: int) -> "Draws":
        return Draws(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


class Batches:
    """An endless sequence of batches. To resume it takes the states of both random generators and the waiting cases."""

    def __init__(self, net: CommitteeNet, data: TrainingSet, size: int, settings: CommitteeSettings, seed: int) -> None:
        self._net, self._data, self._size, self._settings = net, data, size, settings
        self._generator = torch.Generator().manual_seed(seed)
        self._rng = np.random.default_rng(seed)
        self._cases = [np.flatnonzero(trained) for trained in data.trained]
        self._waiting: list[Int64] = [np.empty(0, np.int64) for _ in data.trained]
        self.noise_scale = _noise_scale(data.series.mask, net.shape.mixes)
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

    def read(self, batch: Batch, draws: Draws | None = None) -> Tensor:
        """(G, B, R, S) what tokens read, unchanged or with random changes.

        Channels are mixed first: a shift is the same for all of them, and noise can be drawn as it is after the mix. So
        many channels need only one product per case.
        """
        x = self._unchanged(batch.index)
        if draws is None:
            return x
        length = self._data.series.length[batch.index].flatten()
        x = rotate(x.flatten(0, 1), length, draws.shift.flatten()).view_as(x)
        noise = self._net.mix_noise(draws.noise)
        return x + (noise if self.noise_scale is None else noise * self.noise_scale[batch.index])

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

    def _next(self, member: int) -> Int64:
        """The next cases of a member: random orders of its cases one after the other, cut into batches."""
        waiting = self._waiting[member]
        while len(waiting) < self._size:
            waiting = np.concatenate((waiting, self._rng.permutation(self._cases[member])))
        self._waiting[member] = waiting[self._size :]
        return waiting[: self._size]

    def _batch(self, index: Tensor) -> Batch:
        return Batch(
            index=index,
            valid=self._data.series.valid[index].float(),
            summary=self._data.summary[index],
            y=self._data.y[index],
            weight=self._data.weight[index],
        )

    def _draws(self, batch: Batch) -> Draws:
        series, settings, shape = self._data.series, self._settings, self._net.shape
        device = batch.y.device
        shift = draw_shifts(series.length[batch.index].flatten(), settings.shift, self._generator)
        size = (*batch.index.shape, shape.read_channels, series.x.shape[-1])
        noise = draw_noise(size, settings.noise, self._generator).to(device)
        hides = torch.tensor(settings.per_member("dropout"), device=device)
        visible = draw_visible(batch.valid, settings.dropout * hides, self._generator)
        return Draws(shift.view_as(batch.index), noise, visible)

    def _unchanged(self, index: Tensor) -> Tensor:
        series, centre = self._data.series, self._settings.per_member("centre")
        if self._net.shape.mixes:
            members = zip(index.tolist(), centre, strict=True)
            return self._net.mix_channels([[self._case(case, flag) for case in cases] for cases, flag in members])
        return centre_for_members(series.x[index], series.mask[index], series.level[index], centre)

    def _case(self, index: int, centred: bool) -> Tensor:
        series = self._data.series
        if not centred:
            return series.x[index]
        level = series.level[index][:, None]
        return series.x[index] - (level if self.noise_scale is None else level * series.mask[index])


def _noise_scale(mask: Tensor, mixes: bool) -> Tensor | None:
    """(N, C, S), 0 where there is no noise; None if it is everywhere.

    After a mix the variance of the noise is the share of valid channels.
    """
    if bool(mask.all()):
        return None
    return (mask.sum(1, keepdim=True) / mask.shape[1]).sqrt() if mixes else mask


def _evenly_spaced(cases: list[Int64], size: int) -> Int64 | None:
    """(G, size) of each member's cases, repeated where there are fewer; None if a member has none."""
    if not all(len(each) for each in cases):
        return None
    return np.stack([each[np.arange(size) * max(1, len(each) // size) % len(each)] for each in cases])
