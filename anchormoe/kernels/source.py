"""The kernel source: a linear readout of additive features, with exact evidence per step, channel and family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError, ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput, Term, all_terms
from anchormoe.kernels.bank import FAMILIES, Family, KernelBank, Readout, Slot, read_tensor, read_value
from anchormoe.kernels.evaluator import BankEvaluator, build_evaluator, transform
from anchormoe.kernels.hydra import HydraBank
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.ppv import PPVBank
from anchormoe.kernels.quantized import quantize

NAME = "kernel"
LONG: Family = "long shape"
_BANK_KINDS: dict[str, Any] = {bank.kind: bank for bank in (PPVBank, HydraBank, MeanBank)}


@dataclass(frozen=True, slots=True)
class Part:
    """A bank with its readout, and both prepared for the backend that computes them."""

    bank: KernelBank
    readout: Readout
    evaluator: BankEvaluator
    class_weights: Float64
    """(Y, F) the readout's weights, in the memory order in which a product with them is fast"""

    @classmethod
    def of(cls, bank: KernelBank, readout: Readout, device: str = "cpu") -> "Part":
        return cls(bank, readout, build_evaluator(bank, readout, device), np.ascontiguousarray(readout.weights.T))

    def read_out(self, features: Float64) -> Float64:
        """(B, Y) from features (B, F); a feature without outputs counts as its TRAIN mean."""
        centred = features - self.readout.mean
        # One product per case: in a single one the sums of a case could depend on how many others there are.
        logits = np.array([self.class_weights @ case for case in centred])
        unknown = np.isnan(logits).any(axis=1)
        if unknown.any():
            logits[unknown] = [self.class_weights @ np.nan_to_num(case, nan=0.0) for case in centred[unknown]]
        return logits


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the slots of the parts are among all terms and families of the source."""

    terms: tuple[Term, ...]
    families: tuple[Family, ...]
    places: tuple[tuple[Int64, Int64], ...]
    """Per part: term and family (S,) of each of its slots"""

    @classmethod
    def of(cls, slots: Sequence[tuple[Slot, ...]]) -> "Layout":
        terms = all_terms(tuple(slot.term for slot in own) for own in slots)
        used = {slot.family for own in slots for slot in own}
        families = tuple(family for family in FAMILIES if family in used)
        term_place = {term: index for index, term in enumerate(terms)}
        places = tuple(
            (
                np.array([term_place[slot.term] for slot in own], np.int64),
                np.array([families.index(slot.family) for slot in own], np.int64),
            )
            for own in slots
        )
        return cls(terms, families, places)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Logits, centred over classes: intercept (Y,) plus what each part adds. Cases must be normalized.

    Every feature reads one channel and belongs to a family, so evidence has a place in time and channel and a name.
    """

    channels: int
    intercept: Float64
    parts: tuple[Part, ...]
    layout: Layout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", Layout.of([part.bank.slots for part in self.parts]))

    @property
    def backend(self) -> str:
        """What computes the convolutions: numba or torch; numpy where there are only means."""
        used = {part.evaluator.backend for part in self.parts}
        return next((backend for backend in ("numba", "torch") if backend in used), "numpy")

    @property
    def terms(self) -> tuple[Term, ...]:
        """The channels that the kernels read."""
        return self.layout.terms

    @property
    def families(self) -> tuple[Family, ...]:
        """What the features measure; the experts of this source."""
        return self.layout.families

    def forward(self, cases: Cases) -> SourceOutput:
        """Context is the intercept. Raises DataError on another number of channels."""
        if cases.channels != self.channels:
            raise DataError(f"the kernels were fitted to {self.channels} channels, the cases have {cases.channels}")
        quantized = quantize(cases)
        terms, families = self.terms, self.families
        logits = np.tile(self.intercept, (len(cases), 1))
        context = logits.copy()
        # Steps are contiguous in memory, as compiled code returns them.
        found = np.zeros((len(cases), len(terms), len(families), len(self.intercept), cases.steps))
        for part, (term, family) in zip(self.parts, self.layout.places, strict=True):
            features, evidence = part.evaluator.explain(quantized)
            logits += part.read_out(features)
            found[:, term, family] += evidence  # a part has a slot once
        start = np.arange(cases.steps, dtype=np.int64)
        by_family = found.transpose(0, 4, 1, 2, 3)  # (B, T, K, E, Y)
        values = found.sum(axis=2).transpose(0, 3, 1, 2)
        far = by_family[:, :, :, families.index(LONG)] if LONG in families else None
        return SourceOutput(
            logits, context, SourceEvidence(NAME, start, start + 1, terms, values, families, by_family, far=far)
        )

    def logits(self, cases: Cases) -> Float64:
        """(B, Y) without explanation."""
        quantized = quantize(cases)
        logits = np.tile(self.intercept, (len(cases), 1))
        for part in self.parts:
            logits += part.read_out(transform(part.bank, quantized))
        return logits

    def peak_bytes(self, windows: int, steps: int) -> int:
        """The series as integers, evidence per step, term, family and class, features; one case padded by the widest
        kernel. Evidence exists twice: of one part, then of all, and again over all families."""
        widest = max((_widest_padding(part.bank) for part in self.parts), default=0)
        series = 16 * self.channels * steps
        most = max((len(term) for term, _ in self.layout.places), default=0)
        cells = len(self.terms) * (len(self.families) + 2) + 3 * most
        features = 24 * sum(part.bank.n_features for part in self.parts)
        return windows * (series + 8 * cells * steps * len(self.intercept) + features) + 64 * (steps + widest)

    def to(self, device: str) -> "KernelSource":
        """A source that computes evidence on that device; means stay on the CPU."""
        parts = tuple(Part.of(part.bank, part.readout, device) for part in self.parts)
        return replace(self, parts=parts)

    def tensors(self) -> dict[str, NDArray[Any]]:
        tensors: dict[str, NDArray[Any]] = {"intercept": self.intercept}
        for index, part in enumerate(self.parts):
            tensors[f"{index}.mean"], tensors[f"{index}.readout"] = part.readout.mean, part.readout.weights
            tensors.update({f"{index}.{name}": array for name, array in part.bank.tensors().items()})
        return tensors

    def config(self) -> dict[str, Json]:
        return {"channels": self.channels, "parts": [part.bank.config() for part in self.parts]}

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Strict: every tensor is used, has its shape and fits the others. Raises ModelError."""
        channels, parts = read_value(config, "channels", int), read_value(config, "parts", list)
        intercept = read_tensor(tensors, "intercept", np.float64, 1)
        source = cls(
            channels, intercept, tuple(_read_part(one, index, tensors, channels) for index, one in enumerate(parts))
        )
        _require_consistent(source, config, tensors)
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its configuration and tensors: another machine may use another backend."""
        return type(self).from_parts, (self.config(), self.tensors())


def _read_part(config: Any, index: int, tensors: Mapping[str, NDArray[Any]], channels: int) -> Part:
    kind = config.get("kind") if isinstance(config, Mapping) else None
    if not isinstance(kind, str) or kind not in _BANK_KINDS:
        raise ModelError(f"kernel part {index}: kind must be one of {', '.join(_BANK_KINDS)}, not {kind!r}")
    prefix = f"{index}."
    part = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
    bank: KernelBank = _BANK_KINDS[kind].from_parts(config, part)
    _require_channels(bank, index, channels)
    readout = Readout(read_tensor(part, "mean", np.float64, 1), read_tensor(part, "readout", np.float64, 2))
    if len(readout.mean) != bank.n_features or len(readout.weights) != bank.n_features:
        raise ModelError(
            f"kernel part {index} has {bank.n_features} features, its readout {len(readout.weights)} weights and "
            f"{len(readout.mean)} means"
        )
    return Part.of(bank, readout)


def _widest_padding(bank: KernelBank) -> int:
    """Steps beside a series that its widest kernel reads."""
    dilation = bank.tensors().get("dilation")
    return 8 * int(dilation.max()) if dilation is not None and dilation.size else 0


def _require_channels(bank: KernelBank, index: int, channels: int) -> None:
    read = [channel for slot in bank.slots for channel in slot.term]
    if min(read) < 0 or max(read) >= channels:
        raise ModelError(f"kernel part {index} reads a channel outside 0 … {channels - 1}")


def _require_consistent(source: KernelSource, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> None:
    if set(source.tensors()) != set(tensors) or source.config() != dict(config):
        raise ModelError("the kernel source has tensors or settings that its configuration does not name")
    widths: Sequence[int] = [part.readout.weights.shape[1] for part in source.parts]
    if any(width != len(source.intercept) for width in widths) or len(source.intercept) < 1:
        raise ModelError(
            f"kernel readouts are for {sorted(set(widths))} classes, the intercept for {len(source.intercept)}"
        )
