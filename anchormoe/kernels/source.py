"""The kernel source: a linear readout of additive features; its logits come with exact evidence per step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64
from anchormoe.errors import DataError, ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.kernels.bank import KernelBank, Readout, read_tensor, read_value
from anchormoe.kernels.evaluator import BankEvaluator, build_evaluator, transform
from anchormoe.kernels.hydra import HydraBank
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.ppv import PPVBank
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.settings import NEAR

NAME = "kernel"
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


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Logits, centred over classes: intercept (Y,) plus what each part adds. Cases must be normalized."""

    channels: int
    intercept: Float64
    parts: tuple[Part, ...]

    @property
    def backend(self) -> str:
        """What computes the convolutions: numba or torch; numpy where there are only means."""
        used = {part.evaluator.backend for part in self.parts}
        return next((backend for backend in ("numba", "torch") if backend in used), "numpy")

    def forward(self, cases: Cases) -> SourceOutput:
        """Context is the intercept and what has no place in time. Raises DataError on another number of channels."""
        if cases.channels != self.channels:
            raise DataError(f"the kernels were fitted to {self.channels} channels, the cases have {cases.channels}")
        quantized = quantize(cases)
        far_limits = np.maximum(float(NEAR), cases.lengths / 4)
        logits = np.tile(self.intercept, (len(cases), 1))
        context = logits.copy()
        # (B, T, Y) with the steps contiguous in memory, as compiled code returns them.
        steps, far = np.zeros((2, len(cases), len(self.intercept), cases.steps)).swapaxes(2, 3)
        for part in self.parts:
            evidence = part.evaluator.explain(quantized, far_limits)
            added = part.read_out(evidence.features)
            logits += added
            if part.bank.in_context:
                context += added
            else:
                steps += evidence.steps
            if evidence.far is not None:
                far += evidence.far
        start = np.arange(cases.steps, dtype=np.int64)
        every = tuple(range(self.channels))
        return SourceOutput(
            logits,
            context,
            SourceEvidence(NAME, start, start + 1, (every,), steps[:, :, None], (NAME,), far=far[:, :, None]),
        )

    def logits(self, cases: Cases) -> Float64:
        """(B, Y) without explanation."""
        quantized = quantize(cases)
        logits = np.tile(self.intercept, (len(cases), 1))
        for part in self.parts:
            logits += part.read_out(transform(part.bank, quantized))
        return logits

    def peak_bytes(self, windows: int, steps: int) -> int:
        """The series as integers, evidence per step and class, features; one case padded by the widest kernel."""
        widest = max((_widest_padding(part.bank) for part in self.parts), default=0)
        series = 16 * self.channels * steps
        evidence = 48 * steps * len(self.intercept)
        features = 24 * sum(part.bank.n_features for part in self.parts)
        return windows * (series + evidence + features) + 16 * self.channels * widest

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
    tensors = bank.tensors()
    read = tensors.get("channels", tensors.get("pairs"))
    if read is None or read.min() < 0 or read.max() >= channels:
        raise ModelError(f"kernel part {index} reads a channel outside 0 … {channels - 1}")


def _require_consistent(source: KernelSource, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> None:
    if set(source.tensors()) != set(tensors) or source.config() != dict(config):
        raise ModelError("the kernel source has tensors or settings that its configuration does not name")
    widths: Sequence[int] = [part.readout.weights.shape[1] for part in source.parts]
    if any(width != len(source.intercept) for width in widths) or len(source.intercept) < 1:
        raise ModelError(
            f"kernel readouts are for {sorted(set(widths))} classes, the intercept for {len(source.intercept)}"
        )
