"""The paper's net for inference: folded weights, chosen experts only, the same bits wherever a window stands.

A row of a matrix product gets the same bits whatever the other rows are, as long as rows and columns come without
remainders: so patches come in multiples of eight per window, so do the rows given to an expert, and narrow outputs
(router, heads, classes) are filled up with columns of zeros. At batch 1 the time goes into the number of calls, not
into arithmetic: that is why some things here are cached or done in place that read better otherwise.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float32
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.frame import PatchMask, Served, ServingSteps, filled
from anchormoe.paper.fused_weights import FusedNet, FusedViews, fuse_net, fuse_views
from anchormoe.paper.mvre import centroid_share, position_code
from anchormoe.paper.net import PaperNet
from anchormoe.paper.torch_backend import OnTorch
from anchormoe.simd.backend import choose_backend


class ServingNet:
    """`PaperNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    def __init__(self, net: PaperNet) -> None:
        self.config: ModelConfig = net.config
        self._grid = net.config.grid
        with torch.inference_mode():
            self._weights: FusedNet = fuse_net(net)
            self._views: FusedViews | None = fuse_views(net) if net.config.use_mvre else None
            self._steps = steps_of(net.config, self._weights)

    @torch.inference_mode()
    def forward(self, x: Tensor, mask: Tensor) -> Served:
        """x (B, C, T) float32, 0 where masked; mask (B, C, T) boolean. B ≥ 1."""
        unit, frame = self._units(x, mask)
        return self._steps.output(unit, self._scores(unit), frame)

    @torch.inference_mode()
    def logits(self, x: Tensor, mask: Tensor) -> Float32:
        """u (B, Y) alone, bitwise that of `forward`."""
        unit, frame = self._units(x, mask)
        return self._steps.logits(unit, self._scores(unit), frame)

    def _units(self, x: Tensor, mask: Tensor) -> tuple[Tensor, PatchMask]:
        """e (B·P', D), and what the mask says."""
        D, weights = self.config.width, self._weights
        rows, full = self._steps.cut(x, mask)  # (B·P', C·L)
        if full:  # the usual case
            frame = full_frame(len(x), self._grid.count(x.shape[2]), D, x.device)
        else:
            frame = frame_of(self._grid.valid(mask), D)
        token = torch.addmm(weights.embedding_bias, rows, weights.embedding)
        token = torch.layer_norm(token, (D,), *weights.embedding_norm).view(len(x), -1, D).add_(frame.position)
        if self._views is None:
            return token.flatten(0, 1), frame
        return torch.layer_norm(self._fused(self._views, token, rows, frame), (D,), *self._views.norm), frame

    def _fused(self, views: FusedViews, token: Tensor, rows: Tensor, frame: PatchMask) -> Tensor:
        """The sum under the LayerNorm of Eq. fusion (B·P', D)."""
        flat = token.view(len(rows), -1)
        fused = torch.addmm(views.temporal_bias, flat, views.temporal).relu_().add_(flat)
        spectrum = torch.mm(rows.view(-1, self.config.patch_length), views.waves)
        energy = torch.mm(spectrum.mul_(spectrum), views.bands)
        fused.addmm_(energy.log1p_().view(len(rows), -1), views.spectral)
        centroid = torch.bmm(frame.share, token)  # (B, 1, D)
        # Not a matrix product: a single window would take another path than a batch.
        r = (token * centroid).sum(dim=-1).view(-1, 1)  # (B·P', 1)
        return fused.addcmul_(r, views.context)

    def _scores(self, unit: Tensor) -> Tensor:
        return torch.addmm(self._weights.router_bias, unit, self._weights.router)


@lru_cache(maxsize=64)
def full_frame(B: int, P: int, D: int, device: torch.device) -> PatchMask:
    """That of windows that are valid throughout."""
    return frame_of(torch.ones(B, P, dtype=torch.bool, device=device), D)


def frame_of(valid: Tensor, D: int) -> PatchMask:
    P, m = valid.shape[1], valid.float()
    share = functional.pad(centroid_share(valid, m), (0, filled(P) - P))
    return PatchMask(valid, m.unsqueeze(-1), share, position_code(filled(P), D).to(m))


def steps_of(config: ModelConfig, weights: FusedNet) -> ServingSteps:
    """Compiled where that is possible."""
    if choose_backend(weights.router.device.type) == "torch":
        return OnTorch(config, weights)
    from anchormoe.paper.numba_backend import Compiled  # needs numba

    return Compiled(config, weights)
