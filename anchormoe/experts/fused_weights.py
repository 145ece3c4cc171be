"""A committee's weights for inference: linear maps fused, constants computed once."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.experts.net import CommitteeNet, centre_classes, position_code


class FusedWeights(NamedTuple):
    """Of G members, width D, M experts, Y classes."""

    mix: Tensor
    """(G, D, D), including the residual connection"""
    inner: Tensor
    """(G, D, M·D + M): experts, then router, including the scale of the norm"""
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
        summary=centre_classes(net.summary),
        bias=centre_classes(net.bias),
    )


@torch.inference_mode()
def stem_start(net: CommitteeNet, tokens: int) -> Tensor:
    """(G, P, D): the stem's bias, plus the position code for members that have one."""
    has_position = torch.tensor(net.shape.positioned, device=net.place.device)[:, None, None]
    return position_code(tokens, net.shape.geometry, net.place.device) @ net.place * has_position + net.stem_bias


def pad_columns(weight: Tensor, multiple: int) -> Tensor:
    """With zeros after the last column, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
