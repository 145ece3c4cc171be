"""The models that are explained: the paper's net, which has gradients, and any fitted model, which is called only."""

import numpy as np
import torch
from torch import Tensor, nn

from anchormoe.benchmark.explainers.registry import Needs
from anchormoe.benchmark.explainers.task import ExplainedModel, SeriesBatch
from anchormoe.cases import Bool, Cases, Int64
from anchormoe.evidence import source_outputs
from anchormoe.model.additive import AdditiveModel
from anchormoe.model.normalizer import CLIP, GRID
from anchormoe.paper.net import PaperNet
from anchormoe.paper.source import PaperSource

ROWS = 256
"""Cases that a model reads at once."""


class EmbeddingNet(nn.Module):
    """The paper's net with its logits calibrated, and the admitted mean of its units as an embedding."""

    def __init__(self, net: PaperNet, scale: float, bias: Tensor) -> None:
        super().__init__()
        self.net, self.scale = net, scale
        self.register_buffer("bias", bias)
        self.bias: Tensor

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.embed(x, mask)[1]

    def embed(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Σ π e (B, D) and the logits (B, Y)."""
        net = self.net
        valid = net.config.grid.valid(mask)
        unit = net.mvre(net.config.grid.cut(x), valid)
        output = net.rgc(unit, net.dpar(unit), valid)
        embedding = (output.admission.unsqueeze(-1) * unit).sum(dim=1)
        return embedding, self.scale * output.logits + self.bias


class PaperModel:
    """A fitted model whose only source is the paper's net."""

    offers: frozenset[Needs] = frozenset({"logits", "gradients", "embedding"})

    def __init__(self, model: AdditiveModel, source: PaperSource) -> None:
        self._model, self._source = model, source
        self._net = self.network()

    def network(self) -> nn.Module:
        net = PaperNet(self._source.architecture)
        net.load_state_dict({name: torch.tensor(value) for name, value in self._source.tensors().items()})
        calibration = self._model.calibration
        scale = calibration.scale * self._model.parts[0].weight
        return EmbeddingNet(net, scale, torch.tensor(calibration.bias, dtype=torch.float32)).eval()

    def logits(self, x: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            parts = zip(x.split(ROWS), mask.split(ROWS), strict=True)
            return torch.cat([self._net(*part) for part in parts])


class CalledModel:
    """Any fitted model. Its kernels count positive values and compare with thresholds: there is no gradient."""

    offers: frozenset[Needs] = frozenset({"logits"})

    def __init__(self, model: AdditiveModel) -> None:
        self._model = model

    def network(self) -> nn.Module:
        raise TypeError("this model has no gradient")

    def logits(self, x: Tensor, mask: Tensor) -> Tensor:
        found = [self._part_logits(*part) for part in zip(x.split(ROWS), mask.split(ROWS), strict=True)]
        return torch.cat(found)

    def _part_logits(self, x: Tensor, mask: Tensor) -> Tensor:
        valid = mask.numpy()
        values = np.clip(np.rint(x.numpy() * GRID) / GRID, -CLIP, CLIP) * valid
        cases = Cases(values.astype(np.float32), valid, _lengths(valid))
        scaled = np.zeros((len(x), len(self._model.calibration.bias)))
        for part in self._model.parts:
            scaled += part.weight * np.mean([one.logits for one in source_outputs(part.source, cases)], axis=0)
        return torch.from_numpy(self._model.calibration.apply(scaled))


def explained_model(model: AdditiveModel) -> ExplainedModel:
    source = model.parts[0].source
    return PaperModel(model, source) if isinstance(source, PaperSource) else CalledModel(model)


def series_batch(model: AdditiveModel, cases: Cases, label: Int64) -> SeriesBatch:
    """Raw cases, scaled as the model scales them."""
    scaled = model.normalizer.apply(cases)
    return SeriesBatch(torch.from_numpy(scaled.x), torch.from_numpy(scaled.mask), torch.from_numpy(label))


def _lengths(valid: Bool) -> Int64:
    """(N,) up to the last valid step, at least one."""
    steps = np.asarray(valid.any(axis=1))
    last = steps.shape[1] - np.argmax(steps[:, ::-1], axis=1)
    return np.asarray(np.where(steps.any(axis=1), last, 1), np.int64)
