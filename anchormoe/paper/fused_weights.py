"""The paper net's weights prepared for inference: everything that is linear folded, shapes without remainders. Pure."""

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from anchormoe.paper.architecture import COLUMNS
from anchormoe.paper.mvre import fourier_basis
from anchormoe.paper.net import PaperNet

BANDS = 4
"""Bands are filled up less far: an empty band costs an input of the spectral view for every channel."""


@dataclass(frozen=True, slots=True)
class FusedNet:
    """Weights as (inputs, outputs). `heads` give o and κ's logit from an expert's hidden layer; `class_head` is u's."""

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
    """What MVRE needs beyond the token; the gates and 1/√D are folded in."""

    temporal: Tensor
    temporal_bias: Tensor
    waves: Tensor
    bands: Tensor
    spectral: Tensor
    context: Tensor
    norm: tuple[Tensor, Tensor]


def fuse_net(net: PaperNet) -> FusedNet:
    mvre, rgc = net.mvre, net.rgc
    router, router_bias = net.dpar.folded()
    heads, heads_bias = rgc.folded_heads()
    return FusedNet(
        embedding=mvre.embedding.weight.t().contiguous(),
        embedding_bias=mvre.embedding.bias.clone(),
        embedding_norm=(mvre.embedding_norm.weight.clone(), mvre.embedding_norm.bias.clone()),
        router=_filled(router.t()),
        router_bias=_filled(router_bias),
        expert_in=[weight.clone() for weight in rgc.expert_in],
        expert_in_bias=rgc.expert_in_bias.clone(),
        heads=[_filled(head.t()) for head in heads],
        heads_bias=_filled(heads_bias),
        class_head=_filled((rgc.expert_out @ rgc.class_head.t()).flatten(0, 1)),  # (M·D, Y)
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
        bands=_filled(bands, BANDS).t().contiguous().t(),  # this order in memory is three times as fast
        spectral=_filled(spectral, BANDS).flatten(1).t().contiguous(),
        context=gated.context / math.sqrt(config.width),
        norm=(mvre.norm.weight.clone(), mvre.norm.bias.clone()),
    )


def _filled(weight: Tensor, multiple: int = COLUMNS) -> Tensor:
    """With zeros behind the last axis, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
