"""The paper's net as a source of evidence: one unit per patch, no context."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchormoe.cases import Cases, Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Json, SourceEvidence, SourceOutput, centred, patch_grid
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.net import PaperNet
from anchormoe.paper.serving import ServingNet
from anchormoe.training.devices import to_device

PATCHES_PER_PASS = 1024
"""Keeps a pass in the processor's caches; a window's result does not depend on the others in its pass."""


class PaperSource:
    """A fitted AnchorMoE. Its experts are e0, e1, …"""

    backend = "torch"

    def __init__(self, net: PaperNet, device: str | torch.device = "cpu") -> None:
        self._net = net.eval()
        self.to(device)

    @property
    def architecture(self) -> ModelConfig:
        return self._net.config

    def to(self, device: str | torch.device) -> Self:
        """Moves this source and returns it."""
        self._device = torch.device(device)
        self._net = self._net.to(self._device)
        self._serving = ServingNet(self._net)
        return self

    def forward(self, cases: Cases) -> SourceOutput:
        self._require_channels(cases)
        per_pass = windows_per_pass(self.architecture, cases.steps)
        outputs = [self._pass(cases.subset(slice(i, i + per_pass))) for i in range(0, len(cases), per_pass)]
        logits, values, weight, reliability, admission = (np.concatenate(part) for part in zip(*outputs, strict=True))
        start, stop = patch_grid(cases.steps, self.architecture.patch_length, self.architecture.patch_stride)
        evidence = SourceEvidence(
            name="paper",
            start=start,
            stop=stop,
            terms=(tuple(range(self.architecture.channels)),),
            values=values.sum(axis=2)[:, :, None],
            experts=tuple(f"e{r}" for r in range(self.architecture.experts)),
            expert_values=values[:, :, None],
            weight=weight[:, :, None],
            reliability=reliability[:, :, None],
            admission=admission,
        )
        return SourceOutput(logits, np.zeros_like(logits), evidence)

    def peak_bytes(self, windows: int, steps: int) -> int:
        """The table of waves; one pass: patches, their spectra and units; the values of all experts."""
        shape, P = self.architecture, self.architecture.grid.count(steps)
        per_patch = 4 * (3 * shape.channels * shape.patch_length + 8 * shape.width + shape.top_k * (shape.classes + 8))
        one_pass = min(windows, windows_per_pass(shape, steps)) * P * per_patch
        return 24 * shape.patch_length**2 + one_pass + windows * P * 16 * shape.experts * (shape.classes + 2)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: value.detach().cpu().numpy() for name, value in self._net.state_dict().items()}

    def config(self) -> dict[str, Json]:
        return self.architecture.to_dict()

    @classmethod
    def from_parts(cls, config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Strict: keys, shapes, types and finiteness. Raises ModelError."""
        architecture = ModelConfig.from_dict(config)
        with torch.device("meta"):  # allocates nothing before the shapes are checked
            net = PaperNet(architecture)
        net.load_state_dict(_check_weights(net, tensors), assign=True)
        return cls(net)

    def _pass(self, cases: Cases) -> tuple[Float64, ...]:
        """logits (B, Y), expert values (B, P, M, Y), weight, reliability (B, P, M), admission (B, P)."""
        x, mask = (to_device(self._device, part) for part in (cases.x, cases.mask))
        output = self._serving.forward(x, mask)
        M = self.architecture.experts
        values = centred(_scatter_to_experts(output.expert, output.expert_contributions, M))
        weight, reliability = (
            _scatter_to_experts(output.expert, part, M) for part in (output.weight, output.reliability)
        )
        return (
            centred(output.logits.astype(np.float64)),
            values,
            weight,
            reliability,
            output.admission.astype(np.float64),
        )

    def _require_channels(self, cases: Cases) -> None:
        if cases.channels != self.architecture.channels:
            raise ModelError(
                f"the model was trained on {self.architecture.channels} channels, the data have {cases.channels}"
            )


def windows_per_pass(architecture: ModelConfig, steps: int) -> int:
    return max(1, PATCHES_PER_PASS // architecture.grid.count(steps))


def _scatter_to_experts(expert: Int64, chosen: Float32, experts: int) -> Float64:
    """Values of the chosen experts (B, P, K, …) in the columns of all experts (B, P, M, …), 0 elsewhere."""
    values = np.zeros((*chosen.shape[:2], experts, *chosen.shape[3:]))
    np.put_along_axis(values, expert.reshape(*expert.shape, *[1] * (chosen.ndim - 3)), chosen, axis=2)
    return values


def _check_weights(net: PaperNet, tensors: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Raises ModelError."""
    expected = net.state_dict()
    if set(expected) != set(tensors):
        raise ModelError(f"missing or unknown weights for this architecture: {sorted(set(expected) ^ set(tensors))}")
    for name, value in expected.items():
        given = tensors[name]
        if given.shape != tuple(value.shape) or given.dtype != np.float32:
            raise ModelError(f"{name}: expected float32 {tuple(value.shape)}, got {given.dtype} {given.shape}")
        if not np.isfinite(given).all():
            raise ModelError(f"{name} contains values that are not finite")
    return {name: torch.tensor(tensors[name]) for name in expected}
