"""AnchorMoE as in the paper: patches → MVRE → DPAR → RGC, for training."""

from torch import Tensor, nn

from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.dpar import DPAR, posterior_anchors
from anchormoe.paper.mvre import MVRE
from anchormoe.paper.output import Output
from anchormoe.paper.rgc import RGC


class PaperNet(nn.Module):
    """`serving.ServingNet` computes the same outputs faster, without gradients."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.mvre = MVRE(config)
        self.dpar = DPAR(config)
        self.rgc = RGC(config)

    def forward(self, x: Tensor, mask: Tensor) -> Output[Tensor]:
        """x (B, C, T), 0 where masked; mask (B, C, T) boolean."""
        valid = self.config.grid.valid(mask)
        unit = self.mvre(self.config.grid.cut(x), valid)
        routing = self.dpar(unit)
        output: Output[Tensor] = self.rgc(unit, routing, valid)
        if not self.config.use_dpar:
            return output
        return output._replace(anchors=posterior_anchors(unit, routing, valid))
