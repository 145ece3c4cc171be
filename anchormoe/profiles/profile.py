"""The profile of an expert: what it looks at, for which classes it speaks, how often it was right. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from anchormoe.cases import Float64
from anchormoe.conversion import Share, Text, from_stored, is_plain_text
from anchormoe.errors import ModelError
from anchormoe.profiles.segments import Segments

MAX_EXPERTS = 4096
MAX_RECORDINGS = 4096
MAX_ANCHORED = 256
MAX_TERMS = 5
"""Channels, or sets of channels, that a profile names."""
MAX_TOGETHER = 16
"""Channels of a set that a profile names; of larger sets it says how many there are."""
PROTOTYPES = 4
Judged = Literal["out-of-fold", "TRAIN"]
"""On which answers an expert was found right: those of models that did not see the case, or of the model itself."""


@dataclass(frozen=True, slots=True)
class TermShare:
    """A channel, or several read together, and its share of the expert's |evidence|."""

    channels: tuple[Annotated[int, Meta(ge=0)], ...]
    """at most MAX_TOGETHER of them"""
    count: Annotated[int, Meta(ge=1)]
    """how many there are"""
    share: Share


@dataclass(frozen=True, slots=True)
class ExpertProfile:
    """One expert of the model, by the TRAIN cases it spoke on."""

    name: Text
    """as in `Prediction.experts`"""
    title: Text
    """readable, and unique in the bundle"""
    shape: Text
    """in words"""
    cycles: Annotated[float, Meta(gt=0, le=0.5)] | None
    """per step, of an oscillation"""
    terms: tuple[TermShare, ...]
    """where it speaks, strongest first"""
    support: tuple[float | None, ...]
    """per class: its mean contribution to the class in TRAIN windows that the model called so; None without any"""
    share: Share
    """of all |evidence| of the model"""
    chosen: Share | None
    """share of the units for which routing chose it; None where it always speaks"""
    reliability: float | None
    """mean of its gate where it was chosen; None where it has none"""
    right: Share | None
    """share of what it added that was added in windows whose answer was right; None where it added nothing"""
    judged: Judged
    """which answers `right` is about"""
    prototypes: tuple[Annotated[int, Meta(ge=0)], ...]
    """rows of the segments it spoke loudest on"""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Posterior anchors: for each expert the centroid of what was routed to it, compared by cosine (M, M)."""

    experts: tuple[Text, ...]
    cosine: tuple[tuple[Annotated[float, Meta(ge=-1.001, le=1.001)], ...], ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    experts: tuple[ExpertProfile, ...]
    recordings: tuple[Text, ...]
    anchors: tuple[Anchors, ...]


@dataclass(frozen=True)
class ExpertProfiles:
    """The profiles of all experts of a bundle, with their segments."""

    experts: tuple[ExpertProfile, ...]
    segments: Segments
    recordings: tuple[str, ...]
    """names that the segments refer to"""
    anchors: tuple[Anchors, ...] = ()
    """one per source that has them"""

    @cached_property
    def titles(self) -> dict[str, str]:
        """Internal name to readable one."""
        return {expert.name: expert.title for expert in self.experts}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Internal name to the number in `segments.expert`."""
        return {expert.name: number for number, expert in enumerate(self.experts)}

    def to_dict(self) -> dict[str, Any]:
        """JSON, without the segments."""
        return asdict(_Stored(self.experts, self.recordings, self.anchors))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return self.segments.tensors()

    @classmethod
    def from_stored(
        cls, stored: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], *, channels: int, classes: int, steps: int
    ) -> "ExpertProfiles":
        """Strict inverse of `to_dict` and `tensors`. Raises ModelError, which does not name the files."""
        found = from_stored(_Stored, stored, "")
        _require_plain_text(found)
        _require_sizes(found, channels=channels, classes=classes)
        limits = {
            "experts": len(found.experts), "channels": channels, "labels": classes,
            "recordings": len(found.recordings), "steps": steps,
        }  # fmt: skip
        segments = Segments.from_tensors(tensors, limits)
        for number, expert in enumerate(found.experts):
            rows = np.array(expert.prototypes, np.int64)
            if len(rows) > PROTOTYPES or (rows >= len(segments)).any() or (segments.expert[rows] != number).any():
                raise ModelError(
                    f"experts[{number}].prototypes: expected at most {PROTOTYPES} rows of its own segments"
                )
        return cls(found.experts, segments, found.recordings, found.anchors)


def cosine_matrix(anchors: Float64) -> tuple[tuple[float, ...], ...]:
    """(M, D) to (M, M); an anchor of length 0 is like no other."""
    length = np.linalg.norm(anchors, axis=1, keepdims=True)
    unit = anchors / np.where(length > 0, length, 1)
    return tuple(tuple(round(float(np.clip(value, -1, 1)), 4) for value in row) for row in unit @ unit.T)


def _require_plain_text(found: _Stored) -> None:
    experts = [text for one in found.experts for text in (one.name, one.title, one.shape)]
    for text in (*experts, *found.recordings, *(name for one in found.anchors for name in one.experts)):
        if not text or not is_plain_text(text):
            raise ModelError(f"{text!a:.60}: names may be neither empty nor have control characters")


def _require_sizes(found: _Stored, *, channels: int, classes: int) -> None:
    if not len(found.experts) <= MAX_EXPERTS or not len(found.recordings) <= MAX_RECORDINGS:
        raise ModelError(f"expected at most {MAX_EXPERTS} experts and {MAX_RECORDINGS} recordings")
    for kind in ("name", "title"):
        if len({getattr(one, kind) for one in found.experts}) != len(found.experts):
            raise ModelError(f"experts: every {kind} must be different")
    for number, expert in enumerate(found.experts):
        if len(expert.support) != classes or len(expert.terms) > MAX_TERMS:
            raise ModelError(f"experts[{number}]: expected {classes} values of support and at most {MAX_TERMS} terms")
        for term in expert.terms:
            known = len(term.channels) <= min(term.count, MAX_TOGETHER) and term.count <= channels
            if not known or not term.channels or max(term.channels) >= channels:
                raise ModelError(f"experts[{number}].terms: expected 1 to {channels} channels")
    for one in found.anchors:
        size = len(one.experts)
        if not 1 <= size <= MAX_ANCHORED or len(one.cosine) != size or any(len(row) != size for row in one.cosine):
            raise ModelError(f"anchors: expected a square matrix of at most {MAX_ANCHORED} experts")
