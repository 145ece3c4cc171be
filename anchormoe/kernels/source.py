"""The kernel source: a linear read-out of additive features whose logits come with exact evidence per step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Cases, Float64
from anchormoe.errors import DataError, ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput
from anchormoe.kernels.bank import KernelBank, Readout, Tables, stored, stored_value
from anchormoe.kernels.hydra import HydraBank
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.ppv import PPVBank
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.settings import NEAR

NAME = "kernel"
_KINDS: dict[str, Any] = {kind.kind: kind for kind in (PPVBank, HydraBank, MeanBank)}


@dataclass(frozen=True, slots=True)
class Part:
    """An extractor with its read-out, and the read-out as tables."""

    extractor: KernelBank
    readout: Readout
    tables: Tables
    by_class: Float64
    """(Y, F) the read-out's weights, in the order in which a product with them is fast"""

    @classmethod
    def of(cls, extractor: KernelBank, readout: Readout, device: str = "cpu") -> "Part":
        by_class = np.ascontiguousarray(readout.weights.T)
        return cls(extractor, readout, extractor.tables(readout, device), by_class)

    def pooled(self, features: Float64) -> Float64:
        """(B, Y) the read-out of features (B, F); one without outputs counts as its TRAIN mean."""
        centred = features - self.readout.mean
        # One product per case: in a single one the sums of a case could depend on how many others there are.
        logits = np.array([self.by_class @ case for case in centred])
        unknown = np.isnan(logits).any(axis=1)
        if unknown.any():
            logits[unknown] = [self.by_class @ np.nan_to_num(case, nan=0.0) for case in centred[unknown]]
        return logits


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Logits (centred over classes): intercept (Y,) plus what each part adds. It is given normalized cases."""

    channels: int
    intercept: Float64
    parts: tuple[Part, ...]

    def forward(self, cases: Cases) -> SourceOutput:
        """The intercept and what has no place in time are context. Raises DataError on another number of channels."""
        if cases.channels != self.channels:
            raise DataError(f"the kernels know {self.channels} channels, the cases have {cases.channels}")
        grid = quantize(cases)
        far_limits = np.maximum(float(NEAR), cases.lengths / 4)
        logits = np.tile(self.intercept, (len(cases), 1))
        context = logits.copy()
        # Class by class in memory, as the compiled path gives them.
        steps, far = np.zeros((2, len(cases), len(self.intercept), cases.steps)).swapaxes(2, 3)
        for part in self.parts:
            explained = part.extractor.explain(grid, part.tables, far_limits)
            pooled = part.pooled(explained.features)
            logits += pooled
            if part.extractor.in_context:
                context += pooled
            else:
                steps += explained.steps
            if explained.far is not None:
                far += explained.far
        start = np.arange(cases.steps, dtype=np.int64)
        return SourceOutput(logits, context, SourceEvidence(NAME, start, start + 1, steps, (NAME,), far=far))

    def logits(self, cases: Cases) -> Float64:
        """(B, Y) without explanation."""
        grid = quantize(cases)
        logits = np.tile(self.intercept, (len(cases), 1))
        for part in self.parts:
            logits += part.pooled(part.extractor.transform(grid))
        return logits

    def to(self, device: str) -> "KernelSource":
        """Evidence is then computed there; the few means stay on the CPU."""
        parts = tuple(Part.of(part.extractor, part.readout, device) for part in self.parts)
        return replace(self, parts=parts)

    def tensors(self) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {"intercept": self.intercept}
        for index, part in enumerate(self.parts):
            found[f"{index}.mean"], found[f"{index}.readout"] = part.readout.mean, part.readout.weights
            found.update({f"{index}.{name}": array for name, array in part.extractor.tensors().items()})
        return found

    def config(self) -> dict[str, Json]:
        return {"channels": self.channels, "parts": [part.extractor.config() for part in self.parts]}

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Strict: every tensor is used, has its shape and fits the others. Raises ModelError."""
        channels, parts = stored_value(config, "channels", int), stored_value(config, "parts", list)
        intercept = stored(tensors, "intercept", np.float64, 1)
        source = cls(
            channels, intercept, tuple(_stored_part(one, index, tensors, channels) for index, one in enumerate(parts))
        )
        _refuse_misfits(source, config, tensors)
        return source


def _stored_part(config: Any, index: int, tensors: Mapping[str, NDArray[Any]], channels: int) -> Part:
    if not isinstance(config, Mapping) or str(config.get("kind")) not in _KINDS:
        raise ModelError(f"kernel part {index} is of no known kind")
    prefix = f"{index}."
    own = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
    extractor: KernelBank = _KINDS[config["kind"]].from_parts(config, own)
    _refuse_unknown_channels(extractor, index, channels)
    readout = Readout(stored(own, "mean", np.float64, 1), stored(own, "readout", np.float64, 2))
    if len(readout.mean) != extractor.n_features or len(readout.weights) != extractor.n_features:
        raise ModelError(f"kernel part {index} reads out another number of features than it has")
    return Part.of(extractor, readout)


def _refuse_unknown_channels(extractor: KernelBank, index: int, channels: int) -> None:
    named = extractor.tensors().get("channels", extractor.tensors().get("pairs"))
    if named is None or named.min() < 0 or named.max() >= channels:
        raise ModelError(f"kernel part {index} names a channel that is not there")


def _refuse_misfits(source: KernelSource, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> None:
    if set(source.tensors()) != set(tensors) or source.config() != dict(config):
        raise ModelError("the kernel source holds other parts than its configuration says")
    widths: Sequence[int] = [part.readout.weights.shape[1] for part in source.parts]
    if any(width != len(source.intercept) for width in widths) or len(source.intercept) < 1:
        raise ModelError("the kernel source's parts have different numbers of classes")
