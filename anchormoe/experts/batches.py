"""The batches a committee learns from: each member goes through its own cases, in its own order, with its own noise."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Int64
from anchormoe.evidence import Json
from anchormoe.experts.augmentation import drawn_noise, drawn_shifts, kept_evidence, shifted
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Series, for_members
from anchormoe.training.checkpoints import StageCheckpoint


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
    """One batch per member, (G, B, …): the numbers of its cases, and what is known of them without reading them."""

    index: Tensor
    valid: Tensor
    summary: Tensor
    y: Tensor
    weight: Tensor

    def every(self, step: int, first: int) -> "Batch":
        """Every `step`-th case, from `first` on."""
        return Batch(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


@dataclass(frozen=True, slots=True)
class Draws:
    """What a step changes at random: steps (G, B) that a case is turned by, noise (G, B, R, S), evidence kept."""

    shift: Tensor
    noise: Tensor
    kept: Tensor

    def every(self, step: int, first: int) -> "Draws":
        return Draws(*(getattr(self, part.name)[:, first::step] for part in fields(self)))


class Batches:
    """Endless. `generator` draws the noise, `rng` the orders; both and what waits are all there is to resume from."""

    def __init__(self, net: CommitteeNet, data: TrainingSet, size: int, settings: CommitteeSettings, seed: int) -> None:
        self._net, self._data, self._size, self._settings = net, data, size, settings
        self._generator = torch.Generator().manual_seed(seed)
        self._rng = np.random.default_rng(seed)
        self._cases = [np.flatnonzero(trained) for trained in data.trained]
        self._waiting: list[Int64] = [np.empty(0, np.int64) for _ in data.trained]
        self.noise_scale = _noise_scale(data.series.mask, net.shape.mixes)
        self._held_out = _spaced([np.flatnonzero(~trained) for trained in data.trained], size)

    def take(self) -> tuple[Batch, Draws]:
        orders = np.stack([self._next(member) for member in range(len(self._cases))])
        batch = self._of(torch.from_numpy(orders).to(self._data.y.device))  # (G, B)
        return batch, self._draws(batch)

    def held_out(self) -> Batch | None:
        """Some cases that each member does not train on; None where a member trains on all."""
        if self._held_out is None:
            return None
        return self._of(torch.from_numpy(self._held_out).to(self._data.y.device))

    def read(self, batch: Batch, draws: Draws | None = None) -> Tensor:
        """(G, B, R, S) what tokens read: as it is, or changed at random.

        Channels are mixed before anything is changed: a shift is the same for all of them, and noise can be drawn as
        it is after the mix. Of many channels this leaves one product per case.
        """
        x = self._as_is(batch.index)
        if draws is None:
            return x
        length = self._data.series.length[batch.index].flatten()
        x = shifted(x.flatten(0, 1), length, draws.shift.flatten()).view_as(x)
        noise = self._net.mixed_noise(draws.noise)
        return x + (noise if self.noise_scale is None else noise * self.noise_scale[batch.index])

    def tensors(self) -> dict[str, Tensor]:
        waiting = {str(member): torch.from_numpy(own.copy()) for member, own in enumerate(self._waiting)}
        return {"generator": self._generator.get_state(), **waiting}

    def facts(self) -> Json:
        return self._rng.bit_generator.state

    def restore(self, kept: StageCheckpoint) -> None:
        """The opposite of `tensors` (in the group `batches`) and `facts` (under `orders`)."""
        tensors = kept.group("batches")
        self._generator.set_state(tensors.pop("generator"))
        self._waiting = [tensors[str(member)].numpy() for member in range(len(tensors))]
        self._rng.bit_generator.state = kept.facts["orders"]

    def _next(self, member: int) -> Int64:
        """Orders of the member's cases one after the other, cut into pieces."""
        waiting = self._waiting[member]
        while len(waiting) < self._size:
            waiting = np.concatenate((waiting, self._rng.permutation(self._cases[member])))
        self._waiting[member] = waiting[self._size :]
        return waiting[: self._size]

    def _of(self, index: Tensor) -> Batch:
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
        shift = drawn_shifts(series.length[batch.index].flatten(), settings.shift, self._generator)
        size = (*batch.index.shape, shape.read_channels, series.x.shape[-1])
        noise = drawn_noise(size, settings.noise, self._generator).to(device)
        hiding = torch.tensor(settings.per_member("dropout"), device=device)
        kept = kept_evidence(batch.valid, settings.dropout * hiding, self._generator)
        return Draws(shift.view_as(batch.index), noise, kept)

    def _as_is(self, index: Tensor) -> Tensor:
        series, centre = self._data.series, self._settings.per_member("centre")
        if self._net.shape.mixes:
            members = zip(index.tolist(), centre, strict=True)
            return self._net.mixed([[self._case(number, flag) for number in own] for own, flag in members])
        return for_members(series.x[index], series.mask[index], series.level[index], centre)

    def _case(self, number: int, centred: bool) -> Tensor:
        series = self._data.series
        if not centred:
            return series.x[number]
        level = series.level[number][:, None]
        return series.x[number] - (level if self.noise_scale is None else level * series.mask[number])


def _noise_scale(mask: Tensor, mixes: bool) -> Tensor | None:
    """Where noise goes, (N, C, S); None is everywhere. After a mix its variance is the share of channels there."""
    if bool(mask.all()):
        return None
    return (mask.sum(1, keepdim=True) / mask.shape[1]).sqrt() if mixes else mask


def _spaced(cases: list[Int64], size: int) -> Int64 | None:
    """(G, size) of each member's cases, evenly spaced, again from the start where there are fewer."""
    if not all(len(own) for own in cases):
        return None
    return np.stack([own[np.arange(size) * max(1, len(own) // size) % len(own)] for own in cases])
