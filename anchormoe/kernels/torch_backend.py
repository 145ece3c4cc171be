"""Kernels by torch, on any device: the path without numba, and what the compiled one is compared with.

Outputs are whole numbers below 2^24, exact in float32 on every device; evidence is float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float64, Int64
from anchormoe.kernels import hydra, ppv
from anchormoe.kernels.features import part_of
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps import CENTRE, TAPS
from anchormoe.training.devices import to_device

_MOST_ENTRIES = 16_000_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """Cases on a device: values and valid (B, C, T) as floats, inside and step_valid (B, T), lengths (B,)."""

    values: Tensor
    valid: Tensor
    inside: Tensor
    step_valid: Tensor
    lengths: Tensor
    far_limits: Tensor

    @classmethod
    def of(cls, cases: QuantizedCases, far_limits: Float64, device: torch.device) -> "_Batch":
        lengths = to_device(device, cases.lengths)
        values, valid = (to_device(device, part) for part in (cases.values, cases.valid))
        inside = torch.arange(cases.steps, device=device) < lengths[:, None]
        limits = to_device(device, far_limits)
        return cls(values.float(), valid.float(), inside, valid.any(1), lengths, limits)


def pool_ppv(
    bank: "ppv.PPVBank", cases: QuantizedCases, tables: Tensor, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without classes in `tables` (segments, rows, Y) no evidence."""
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    near, far = np.zeros((2, len(cases), cases.steps, tables.shape[2]))
    for chunk in _chunks(cases, _widest(bank.dilation) * max(1, tables.shape[2])):
        batch = _Batch.of(part_of(cases, chunk), far_limits[chunk], tables.device)
        for dilation in np.unique(bank.dilation):
            own = np.flatnonzero(bank.dilation == dilation)
            places = np.arange(bank.bias_start[own[0]], bank.bias_start[own[-1] + 1])
            found, evidence = _shares(bank, own, int(dilation), batch, tables)
            features[chunk, :, places[0] : places[-1] + 1] = found.cpu().numpy()
            _add(evidence, int(dilation), batch, near[chunk], far[chunk])
    return features.reshape(len(cases), -1), near, far


def pool_hydra(
    bank: "hydra.HydraBank", cases: QuantizedCases, tables: Tensor, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without classes in `tables` (G, 16, Y) no evidence."""
    features = np.full((len(cases), len(bank.weights), 2 * hydra.RIVALS), np.nan)
    near, far = np.zeros((2, len(cases), cases.steps, tables.shape[2]))
    for chunk in _chunks(cases, _widest(bank.dilation) * (hydra.RIVALS + tables.shape[2])):
        batch = _Batch.of(part_of(cases, chunk), far_limits[chunk], tables.device)
        for dilation in np.unique(bank.dilation):
            own = np.flatnonzero(bank.dilation == dilation)
            found, evidence = _rivals(bank, own, int(dilation), batch, tables)
            features[chunk, own[0] : own[-1] + 1] = found.cpu().numpy()
            _add(evidence, int(dilation), batch, near[chunk], far[chunk])
    return features.reshape(len(cases), -1), near, far


def _chunks(cases: QuantizedCases, entries: int) -> Iterator[slice]:
    """Runs of cases of which `entries` numbers per step fit into bounded memory."""
    size = max(1, _MOST_ENTRIES // max(1, entries * cases.steps))
    yield from (slice(start, start + size) for start in range(0, len(cases), size))


def _widest(dilation: Int64) -> int:
    """The most kernels that share a dilation."""
    return int(np.unique(dilation, return_counts=True)[1].max())


def _shares(bank: "ppv.PPVBank", own: Int64, dilation: int, batch: _Batch, tables: Tensor) -> tuple[Tensor, Tensor]:
    """Features (B, segments, biases) and evidence (B, T, Y) of the combinations `own`, which share a dilation."""
    device = tables.device
    positive = np.zeros((len(own), TAPS), np.bool_)
    np.put_along_axis(positive, ppv.POSITIVE_TAPS[bank.kernel[own]], True, axis=1)
    chosen = _chosen(bank.channel_start, bank.channels, own, batch)
    value = _tap_sums(_product(chosen, batch.values), _floats(np.where(positive, 2, -1), device), dilation)
    live = _counted(chosen, batch, _floats(np.where(positive, 2, 1), device), dilation)
    reach = torch.from_numpy(np.where(bank.padded[own], 0, CENTRE * dilation)).to(device)[:, None]
    steps = torch.arange(value.shape[2], device=device)
    live &= (steps >= reach) & (steps < batch.lengths[:, None, None] - reach)
    bins = _bins(bank, own, value)  # (B, n, T)
    part = _part_of(batch, max(bank.parts))
    features, evidence, segment = [], batch.values.new_zeros(1, dtype=torch.float64), 0
    for parts in bank.parts:
        within = part * parts // max(bank.parts)  # (B, T)
        for index in range(parts):
            there = live & (within == index)[:, None]
            total = there.sum(2, keepdim=True)  # (B, n, 1)
            features.append(_segment_shares(bank, own, bins, there, total))
            scale = there / total.clamp(min=1).double()
            evidence = evidence + _looked_up(bank, own, bins, scale, tables[segment])
            segment += 1
    return torch.stack(features, 1), evidence


def _bins(bank: "ppv.PPVBank", own: Int64, value: Tensor) -> Tensor:
    """(B, n, T): how many of its thresholds each output exceeds."""
    counts = bank.bias_start[own + 1] - bank.bias_start[own]
    padded = np.full((len(own), counts.max()), np.inf, np.float32)
    inside = np.arange(counts.max()) < counts[:, None]
    padded[inside] = bank.biases[bank.bias_start[own[0]] : bank.bias_start[own[-1] + 1]]
    flat = value.transpose(0, 1).flatten(1).contiguous()  # (n, B·T)
    found = torch.searchsorted(torch.from_numpy(padded).to(value.device), flat)
    return found.view(len(own), len(value), -1).transpose(0, 1)


def _segment_shares(bank: "ppv.PPVBank", own: Int64, bins: Tensor, there: Tensor, total: Tensor) -> Tensor:
    """(B, biases): the share of a segment's outputs above each threshold, NaN without outputs."""
    counts = bank.bias_start[own + 1] - bank.bias_start[own]
    seen = torch.zeros((*bins.shape[:2], int(counts.max()) + 1), dtype=torch.int64, device=bins.device)
    seen.scatter_add_(2, bins, there.long())  # how many outputs lie in each bin
    above = seen.flip(2).cumsum(2).flip(2)[:, :, 1:]  # (B, n, most)
    share = torch.where(total > 0, above.double() / total, torch.nan)
    inside = torch.from_numpy(np.arange(counts.max()) < counts[:, None]).to(bins.device)
    return share[:, inside]


def _looked_up(bank: "ppv.PPVBank", own: Int64, bins: Tensor, scale: Tensor, table: Tensor) -> Tensor:
    """(B, T, Y): what the outputs add; table (rows, Y)."""
    first = torch.from_numpy(bank.bias_start[own] + own).to(bins.device)[:, None]
    return torch.einsum("bnty,bnt->bty", table[bins + first], scale)


def _rivals(bank: "hydra.HydraBank", own: Int64, dilation: int, batch: _Batch, tables: Tensor) -> tuple[Tensor, Tensor]:
    """Features (B, n, 16) and evidence (B, T, Y) of the groups `own`, which share a dilation."""
    device = tables.device
    chosen = _chosen(bank.channel_start, bank.channels, own, batch)
    shift = torch.from_numpy(bank.shift[own]).to(device)[:, None]
    series = (_product(chosen, batch.values).long() >> shift).clamp(-hydra.SERIES_LIMIT, hydra.SERIES_LIMIT).float()
    weights = torch.from_numpy(bank.weights[own].astype(np.float32)).to(device)  # (n, 8, 9)
    responses = torch.stack([_tap_sums(series, weights[:, rival], dilation) for rival in range(hydra.RIVALS)], 3)
    live = _counted(chosen, batch, torch.ones((len(own), TAPS), device=device), dilation)
    largest, smallest = responses.argmax(3), responses.argmin(3)  # (B, n, T), the first of equals
    most = responses.gather(3, largest[..., None])[..., 0].double()
    total = live.sum(2, keepdim=True)  # (B, n, 1)
    sums = most.new_zeros((*live.shape[:2], 2 * hydra.RIVALS))
    sums.scatter_add_(2, largest, most * live * hydra.RESPONSE_UNIT)
    sums.scatter_add_(2, smallest + hydra.RIVALS, live.double())
    rows = tables[torch.from_numpy(own).to(device)]  # (n, 16, Y)
    group = torch.arange(len(own), device=device)[:, None]
    scale = live / total.clamp(min=1).double()
    evidence = torch.einsum("bnty,bnt->bty", rows[group, largest], scale * most)
    evidence += torch.einsum("bnty,bnt->bty", rows[group, smallest + hydra.RIVALS], scale)
    return torch.where(total > 0, sums / total, torch.nan), evidence


def _chosen(start: Int64, channels: Int64, own: Int64, batch: _Batch) -> Tensor:
    """(n, C): 1 for the channels that each combination reads."""
    chosen = np.zeros((len(own), batch.values.shape[1]), np.float32)
    for row, index in enumerate(own):
        chosen[row, channels[start[index] : start[index + 1]]] = 1
    return torch.from_numpy(chosen).to(batch.values.device)


def _product(chosen: Tensor, values: Tensor) -> Tensor:
    """(n, C) times (B, C, T); whole numbers, so the order of the sums does not matter."""
    return torch.matmul(chosen, values)


def _tap_sums(series: Tensor, weights: Tensor, dilation: int) -> Tensor:
    """(B, n, T): each series with its own nine weights (n, 9), zeros outside."""
    padded = functional.pad(series, (CENTRE * dilation, CENTRE * dilation))
    total = torch.zeros_like(series)
    for tap in range(TAPS):
        total += weights[:, tap, None] * padded[..., tap * dilation : tap * dilation + series.shape[2]]
    return total


def _counted(chosen: Tensor, batch: _Batch, weights: Tensor, dilation: int) -> Tensor:
    """(B, n, T): outputs with at least 75 % of their in-series weight on valid entries."""
    want = chosen.sum(1)[:, None] * batch.inside[:, None]  # (B, n, T)
    surplus = 4 * _product(chosen, batch.valid) - 3 * want
    return (_tap_sums(surplus, weights, dilation) >= 0) & batch.inside[:, None]


def _part_of(batch: _Batch, finest: int) -> Tensor:
    """(B, T) part of the case that each step lies in; the edges are at q × length // finest."""
    device = batch.values.device
    edges = torch.arange(1, finest, device=device) * batch.lengths[:, None] // finest  # (B, finest - 1)
    steps = torch.arange(batch.values.shape[2], device=device)
    return (steps[:, None] >= edges[:, None]).sum(2)


def _add(evidence: Tensor, dilation: int, batch: _Batch, near: Float64, far: Float64) -> None:
    """Adds evidence (B, T, Y), each output divided equally among the valid steps it read, to near or far."""
    if not near.shape[2]:
        return
    ones = torch.ones((1, TAPS), dtype=torch.float64, device=evidence.device)
    valid = batch.step_valid[:, None].double()  # (B, 1, T)
    there = _tap_sums(valid, ones, dilation).clamp(min=1)
    shared = _tap_sums(evidence.transpose(1, 2) / there, ones, dilation) * valid  # the taps lie symmetrically
    steps: Any = shared.transpose(1, 2).cpu().numpy()
    is_far = ((TAPS - 1) * dilation + 1 > batch.far_limits).cpu().numpy()
    far[is_far] += steps[is_far]
    near[~is_far] += steps[~is_far]


def _floats(values: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device)
