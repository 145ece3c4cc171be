"""Weights of the paper's net for inference: linear maps that follow each other fused, columns padded. Pure."""

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from anchormoe.paper.architecture import COLUMNS
from anchormoe.paper.mvre import fourier_basis
from anchormoe.paper.net import PaperNet

BANDS = 4
"""Bands are padded to a multiple of this only: an empty band costs one input of the spectral view per channel."""


@dataclass(frozen=True, slots=True)
class FusedNet:
    """Weights as (inputs, outputs). `heads` give o and the logit of κ from an expert's hidden layer, `class_head` u."""

    embedding: Tensor
    embedding_bias: Tensor
    embedding_norm: tuple[Tensor, Tensor]
    router: Tensor
    router_bias: Tensor
    expert_in: list[Tensor]
    expert_in_bias: Tensor
    heads: list[Tensor]
    heads_bias: Tensor
    class_head: Tensor


@dataclass(frozen=True, slots=True)
class FusedViews:
    """The views of MVRE, with their gates and 1/√D in the weights."""

    temporal: Tensor
    temporal_bias: Tensor
    waves: Tensor
    bands: Tensor
    spectral: Tensor
    context: Tensor
    norm: tuple[Tensor, Tensor]


def fuse_net(net: PaperNet) -> FusedNet:
    mvre, rgc = net.mvre, net.rgc
    router, router_bias = net.dpar.fused()
    heads, heads_bias = rgc.fused_heads()
    return FusedNet(
        embedding=mvre.embedding.weight.t().contiguous(),
        embedding_bias=mvre.embedding.bias.clone(),
        embedding_norm=(mvre.embedding_norm.weight.clone(), mvre.embedding_norm.bias.clone()),
        router=_pad_columns(router.t()),
        router_bias=_pad_columns(router_bias),
        expert_in=[weight.clone() for weight in rgc.expert_in],
        expert_in_bias=rgc.expert_in_bias.clone(),
        heads=[_pad_columns(head.t()) for head in heads],
        heads_bias=_pad_columns(heads_bias),
        class_head=_pad_columns((rgc.expert_out @ rgc.class_head.t()).flatten(0, 1)),  # (M·D, Y)
    )


def fuse_views(net: PaperNet) -> FusedViews:
    mvre, config = net.mvre, net.config
    gated = mvre.gated()
    waves, bands = (part.to(mvre.temporal.weight) for part in fourier_basis(config.patch_length, config.band_count))
    spectral = gated.spectral.view(config.width, config.channels, -1)  # (D, C, bands)
    return FusedViews(
        temporal=gated.temporal.t().contiguous(),
        temporal_bias=gated.temporal_bias,
        waves=waves.clone(),
        bands=_pad_columns(bands, BANDS).t().contiguous().t(),  # column order is three times as fast
        spectral=_pad_columns(spectral, BANDS).flatten(1).t().contiguous(),
        context=gated.context / math.sqrt(config.width),
        norm=(mvre.norm.weight.clone(), mvre.norm.bias.clone()),
    )


def _pad_columns(weight: Tensor, multiple: int = COLUMNS) -> Tensor:
    """With zeros after the last column, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
