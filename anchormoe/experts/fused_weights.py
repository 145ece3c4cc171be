"""A committee's weights for inference: what is linear folded together, what is constant made once."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.net import CommitteeNet, centred, places


class FusedWeights(NamedTuple):
    """Of G members, width D, M experts, Y classes."""

    mix: Tensor
    """(G, D, D), the residual is part of it"""
    inner: Tensor
    """(G, D, M·D + M): experts, then router, with the norm's scale"""
    inner_bias: Tensor
    """(G, 1, M·D + M)"""
    head: Tensor
    """(G, D, Y), centred over the classes"""
    summary: Tensor
    """(G, 2·C, Y), centred"""
    bias: Tensor
    """(G, Y), centred"""


@torch.inference_mode()
def fuse_weights(net: CommitteeNet) -> FusedWeights:
    inner = torch.cat((net.expert, net.router), -1)
    return FusedWeights(
        mix=net.mix + torch.eye(net.shape.width, device=net.mix.device),
        inner=net.norm.transpose(1, 2) * inner,
        inner_bias=functional.pad(net.expert_bias, (0, net.shape.experts)) + torch.bmm(net.norm_bias, inner),
        head=net.class_head(),
        summary=centred(net.summary),
        bias=centred(net.bias),
    )


@torch.inference_mode()
def prepare_weights(net: CommitteeNet, tokens: int) -> Tensor:
    """(G, P, D): the stem's bias, and the place code of members that know it."""
    knows = torch.tensor(net.shape.positioned, device=net.place.device)[:, None, None]
    return places(tokens, net.shape.geometry, net.place.device) @ net.place * knows + net.stem_bias


def padded_to(weight: Tensor, multiple: int) -> Tensor:
    """With zeros behind the last axis, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
