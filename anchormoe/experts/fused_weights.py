"""A committee's weights for inference: linear maps fused, constants computed once."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.net import CommitteeNet, centre_classes


class FusedWeights(NamedTuple):
    """Of G members, R channels, widths D and V, M experts, Y classes."""

    mix: Tensor
    """(G, D, D), including the residual connection"""
    inner: Tensor
    """(G, D, M·V + 2·M): experts, router, reliability, including the scale of the norm"""
    inner_bias: Tensor
    """(G, 1, M·V + 2·M)"""
    head: Tensor
    """(G, V, Y), centred over the classes"""
    level: Tensor
    """(G, R, 2, Y), centred"""
    bias: Tensor
    """(G, Y), centred"""


@torch.inference_mode()
def fuse_weights(net: CommitteeNet) -> FusedWeights:
    inner = torch.cat((net.expert, net.router, net.reliability), -1)
    bias = torch.cat((functional.pad(net.expert_bias, (0, net.shape.experts)), net.reliability_bias), -1)
    return FusedWeights(
        mix=net.mix + torch.eye(net.shape.width, device=net.mix.device),
        inner=net.norm.transpose(1, 2) * inner,
        inner_bias=bias + torch.bmm(net.norm_bias, inner),
        head=net.class_head(),
        level=centre_classes(net.level),
        bias=net.context(),
    )


def pad_columns(weight: Tensor, multiple: int) -> Tensor:
    """With zeros after the last column, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
