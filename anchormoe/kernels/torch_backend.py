"""PPV and Hydra kernels in torch, on any device: for machines without numba, and the reference for the compiled code.

Outputs are integers below 2^24, exact in float32 on every device; evidence is float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float64, Int64
from anchormoe.kernels.bank import Pooled, Reads, Slot, slot_valid
from anchormoe.kernels.hydra import FEATURES_PER_GROUP, KERNELS_PER_GROUP, RESPONSE_UNIT, SERIES_LIMIT, HydraBank
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps import CENTRE, TAPS
from anchormoe.training.devices import to_device

_MAX_ENTRIES = 16_000_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """Cases on a device: values and valid (B, C, T), by_slot (B, S, T), inside (B, T), lengths (B,)."""

    values: Tensor
    valid: Tensor
    by_slot: Tensor
    inside: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, cases: QuantizedCases, slots: tuple[Slot, ...], device: torch.device) -> "_Batch":
        lengths = to_device(device, cases.lengths)
        values, valid = (to_device(device, part) for part in (cases.values, cases.valid))
        inside = torch.arange(cases.steps, device=device) < lengths[:, None]
        by_slot = to_device(device, slot_valid(slots, cases.valid))
        return cls(values.float(), valid.float(), by_slot.double(), inside, lengths)


class TorchPPV:
    """Implements `bank.Pooling` for the table (segments, bins, Y) that `PPVBank.readout_table` gives."""

    def __init__(self, bank: PPVBank, table: Float64, device: str) -> None:
        self._bank, self._table = bank, torch.from_numpy(table).to(device)
        self._slots, self._slot = bank.slots, bank.reads.slot

    def pool(self, cases: QuantizedCases) -> Pooled:
        bank, classes = self._bank, self._table.shape[2]
        features = np.full((len(cases), bank.segments, len(bank.biases)), np.nan)
        total = np.zeros((len(cases), len(self._slots), classes, cases.steps))
        for chunk in _case_chunks(cases, _most_per_dilation(bank.dilation) * max(1, classes)):
            batch = _Batch.of(cases.subset(chunk), self._slots, self._table.device)
            for dilation in np.unique(bank.dilation):
                chosen = np.flatnonzero(bank.dilation == dilation)
                first, last = bank.bias_start[chosen[0]], bank.bias_start[chosen[-1] + 1]
                ppv, evidence = _pool_ppv(bank, chosen, int(dilation), batch, self._table)
                features[chunk, :, first:last] = ppv.cpu().numpy()
                _add_by_slot(evidence, self._slot[chosen], int(dilation), batch, total[chunk])
        return Pooled(features.reshape(len(cases), -1), total)


class TorchHydra:
    """Implements `bank.Pooling` for the table (G, 16, Y) that `HydraBank.readout_table` gives."""

    def __init__(self, bank: HydraBank, table: Float64, device: str) -> None:
        self._bank, self._table = bank, torch.from_numpy(table).to(device)
        self._slots, self._slot = bank.slots, bank.reads.slot

    def pool(self, cases: QuantizedCases) -> Pooled:
        bank, classes = self._bank, self._table.shape[2]
        features = np.full((len(cases), len(bank.weights), FEATURES_PER_GROUP), np.nan)
        total = np.zeros((len(cases), len(self._slots), classes, cases.steps))
        for chunk in _case_chunks(cases, _most_per_dilation(bank.dilation) * (KERNELS_PER_GROUP + classes)):
            batch = _Batch.of(cases.subset(chunk), self._slots, self._table.device)
            for dilation in np.unique(bank.dilation):
                chosen = np.flatnonzero(bank.dilation == dilation)
                pooled, evidence = _pool_hydra(bank, chosen, int(dilation), batch, self._table)
                features[chunk, chosen[0] : chosen[-1] + 1] = pooled.cpu().numpy()
                _add_by_slot(evidence, self._slot[chosen], int(dilation), batch, total[chunk])
        return Pooled(features.reshape(len(cases), -1), total)


def _case_chunks(cases: QuantizedCases, entries: int) -> Iterator[slice]:
    """Chunks of cases for which `entries` numbers per step stay within _MAX_ENTRIES."""
    size = max(1, _MAX_ENTRIES // max(1, entries * cases.steps))
    yield from (slice(start, start + size) for start in range(0, len(cases), size))


def _most_per_dilation(dilation: Int64) -> int:
    """The largest number of kernels that share a dilation."""
    return int(np.unique(dilation, return_counts=True)[1].max())


def _pool_ppv(bank: PPVBank, chosen: Int64, dilation: int, batch: _Batch, table: Tensor) -> tuple[Tensor, Tensor]:
    """PPV (B, segments, biases) and evidence (B, n, T, Y) of the chosen combinations, which share a dilation."""
    device = table.device
    positive = np.zeros((len(chosen), TAPS), np.bool_)
    np.put_along_axis(positive, POSITIVE_TAPS[bank.kernel[chosen]], True, axis=1)
    reads = _channel_matrix(bank.reads, chosen, batch)
    value = _tap_sums(torch.matmul(reads, batch.values), _floats(np.where(positive, 2, -1), device), dilation)
    counted = _counted_outputs(reads, batch, _floats(np.where(positive, 2, 1), device), dilation)
    reach = torch.from_numpy(np.where(bank.padded[chosen], 0, CENTRE * dilation)).to(device)[:, None]
    steps = torch.arange(value.shape[2], device=device)
    counted &= (steps >= reach) & (steps < batch.lengths[:, None, None] - reach)
    bins = _bins(bank, chosen, value)  # (B, n, T)
    piece = _pieces(batch, max(bank.parts))  # (B, T)
    features, evidence, segment = [], batch.values.new_zeros(1, dtype=torch.float64), 0
    for parts in bank.parts:
        part = piece * parts // max(bank.parts)  # (B, T)
        for index in range(parts):
            in_segment = counted & (part == index)[:, None]
            total = in_segment.sum(2, keepdim=True)  # (B, n, 1)
            features.append(_segment_ppv(bank, chosen, bins, in_segment, total))
            scale = in_segment / total.clamp(min=1).double()
            evidence = evidence + _bin_evidence(bank, chosen, bins, scale, table[segment])
            segment += 1
    return torch.stack(features, 1), evidence


def _bins(bank: PPVBank, chosen: Int64, value: Tensor) -> Tensor:
    """(B, n, T): how many of its thresholds each output exceeds."""
    counts = bank.bias_start[chosen + 1] - bank.bias_start[chosen]
    padded = np.full((len(chosen), counts.max()), np.inf, np.float32)
    inside = np.arange(counts.max()) < counts[:, None]
    padded[inside] = bank.biases[bank.bias_start[chosen[0]] : bank.bias_start[chosen[-1] + 1]]
    flat = value.transpose(0, 1).flatten(1).contiguous()  # (n, B·T)
    exceeded = torch.searchsorted(torch.from_numpy(padded).to(value.device), flat)
    return exceeded.view(len(chosen), len(value), -1).transpose(0, 1)


def _segment_ppv(bank: PPVBank, chosen: Int64, bins: Tensor, in_segment: Tensor, total: Tensor) -> Tensor:
    """(B, biases): the share of a segment's outputs above each threshold, NaN without outputs."""
    counts = bank.bias_start[chosen + 1] - bank.bias_start[chosen]
    per_bin = torch.zeros((*bins.shape[:2], int(counts.max()) + 1), dtype=torch.int64, device=bins.device)
    per_bin.scatter_add_(2, bins, in_segment.long())
    above = per_bin.flip(2).cumsum(2).flip(2)[:, :, 1:]  # (B, n, most biases)
    share = torch.where(total > 0, above.double() / total, torch.nan)
    # Places instead of a mask: the shape of what a mask takes is known only after a GPU has finished.
    places = torch.from_numpy(np.flatnonzero(np.arange(counts.max()) < counts[:, None])).to(bins.device)
    return share.flatten(1).index_select(1, places)


def _bin_evidence(bank: PPVBank, chosen: Int64, bins: Tensor, scale: Tensor, table: Tensor) -> Tensor:
    """(B, n, T, Y): what the outputs add; table (bins, Y)."""
    first = torch.from_numpy(bank.bias_start[chosen] + chosen).to(bins.device)[:, None]
    return table[bins + first] * scale[..., None]


def _pool_hydra(bank: HydraBank, chosen: Int64, dilation: int, batch: _Batch, table: Tensor) -> tuple[Tensor, Tensor]:
    """Features (B, n, 16) and evidence (B, n, T, Y) of the chosen groups, which share a dilation."""
    device = table.device
    reads = _channel_matrix(bank.reads, chosen, batch)
    shift = torch.from_numpy(bank.shift[chosen]).to(device)[:, None]
    series = (torch.matmul(reads, batch.values).long() >> shift).clamp(-SERIES_LIMIT, SERIES_LIMIT).float()
    weights = torch.from_numpy(bank.weights[chosen].astype(np.float32)).to(device)  # (n, 8, 9)
    responses = torch.stack([_tap_sums(series, weights[:, k], dilation) for k in range(KERNELS_PER_GROUP)], 3)
    counted = _counted_outputs(reads, batch, torch.ones((len(chosen), TAPS), device=device), dilation)
    largest, smallest = responses.argmax(3), responses.argmin(3)  # (B, n, T), the first of equal ones
    response = responses.gather(3, largest[..., None])[..., 0].double()
    total = counted.sum(2, keepdim=True)  # (B, n, 1)
    sums = response.new_zeros((*counted.shape[:2], FEATURES_PER_GROUP))
    sums.scatter_add_(2, largest, response * counted * RESPONSE_UNIT)
    sums.scatter_add_(2, smallest + KERNELS_PER_GROUP, counted.double())
    rows = table[torch.from_numpy(chosen).to(device)]  # (n, 16, Y)
    group = torch.arange(len(chosen), device=device)[:, None]
    scale = counted / total.clamp(min=1).double()
    evidence = rows[group, largest] * (scale * response)[..., None]
    evidence += rows[group, smallest + KERNELS_PER_GROUP] * scale[..., None]
    return torch.where(total > 0, sums / total, torch.nan), evidence


def _channel_matrix(own: Reads, chosen: Int64, batch: _Batch) -> Tensor:
    """(n, C): 1 for the channels that each kernel reads. Products with it are exact: everything is an integer."""
    reads = np.zeros((len(chosen), batch.values.shape[1]), np.float32)
    for row, index in enumerate(chosen):
        reads[row, own.channels[own.channel_start[index] : own.channel_start[index + 1]]] = 1
    return torch.from_numpy(reads).to(batch.values.device)


def _tap_sums(series: Tensor, weights: Tensor, dilation: int) -> Tensor:
    """(B, n, T): each series with its own nine weights (n, 9), zeros outside."""
    padded = functional.pad(series, (CENTRE * dilation, CENTRE * dilation))
    total = torch.zeros_like(series)
    for tap in range(TAPS):
        total += weights[:, tap, None] * padded[..., tap * dilation : tap * dilation + series.shape[2]]
    return total


def _counted_outputs(reads: Tensor, batch: _Batch, weights: Tensor, dilation: int) -> Tensor:
    """(B, n, T): outputs with at least 75 % of their in-series weight on valid entries."""
    full = reads.sum(1)[:, None] * batch.inside[:, None]  # (B, n, T)
    surplus = 4 * torch.matmul(reads, batch.valid) - 3 * full
    return (_tap_sums(surplus, weights, dilation) >= 0) & batch.inside[:, None]


def _pieces(batch: _Batch, finest: int) -> Tensor:
    """(B, T) the part of the case that each step lies in; the edges are at q × length // finest."""
    device = batch.values.device
    edges = torch.arange(1, finest, device=device) * batch.lengths[:, None] // finest  # (B, finest - 1)
    steps = torch.arange(batch.values.shape[2], device=device)
    return (steps[:, None] >= edges[:, None]).sum(2)


def _add_by_slot(evidence: Tensor, slot: Int64, dilation: int, batch: _Batch, total: Float64) -> None:
    """Adds evidence (B, n, T, Y) of one dilation to total (B, S, Y, T).

    That of an output is added in equal parts to the valid steps it read.
    """
    if not total.shape[2]:
        return
    slots = np.unique(slot)
    # Sums as products with 0 and 1: adding by index is not deterministic on a GPU.
    member = torch.from_numpy((slot == slots[:, None]).astype(np.float64)).to(evidence.device)  # (s, n)
    summed = torch.matmul(member, evidence.flatten(2))  # (B, s, T·Y)
    by_slot = summed.view(len(summed), len(slots), *evidence.shape[2:]).transpose(2, 3)
    valid = batch.by_slot[:, torch.from_numpy(slots).to(evidence.device)]  # (B, s, T)
    ones = torch.ones((1, TAPS), dtype=torch.float64, device=evidence.device)
    read = _tap_sums(valid, ones, dilation).clamp(min=1)
    shared = (by_slot / read[:, :, None]).flatten(1, 2)  # (B, s·Y, T)
    spread = _tap_sums(shared, ones, dilation).view(by_slot.shape) * valid[:, :, None]  # taps are symmetric
    total[:, slots] += spread.cpu().numpy()


def _floats(values: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device)
