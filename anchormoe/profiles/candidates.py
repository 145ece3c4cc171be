"""Keeps the segments that experts spoke loudest on, of every expert, term and class, in bounded memory. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.profiles.segments import MAX_SEGMENTS, leading_run

PER_GROUP = 16
"""Segments that are kept of one expert, term and class."""

_COLUMNS = ("case", "term", "expert", "label", "strength", "evidence", "by_class")


@dataclass(frozen=True, slots=True)
class Candidates:
    """N segments, one per case, term and expert; `evidence` (N, P) is what the expert added to each patch."""

    case: Int64
    term: Int64
    expert: Int64
    label: Int64
    strength: Float64
    evidence: Float64
    by_class: Float64
    """(N, Y) the evidence of the term for each class in the leading run; filled by `with_classes`"""

    @classmethod
    def of(cls, first_case: int, evidence: Float64, y: Int64, classes: int = 0) -> "Candidates":
        """From the evidence by expert (B, P, K, E) of cases numbered from `first_case`, with their classes."""
        strength = np.abs(evidence).max(axis=1)  # (B, K, E)
        place = np.argwhere(strength > 0)
        case, term, expert = place.T
        values = evidence[case, :, term, expert]
        empty = np.zeros((len(case), classes))
        return cls(first_case + case, term, expert, y[case], strength[case, term, expert], values, empty)

    def __len__(self) -> int:
        return len(self.case)

    def take(self, rows: Int64) -> "Candidates":
        return Candidates(*(getattr(self, name)[rows] for name in _COLUMNS))

    def merged(self, other: "Candidates") -> "Candidates":
        return Candidates(*(np.concatenate((getattr(self, name), getattr(other, name))) for name in _COLUMNS))

    def with_classes(self, first_case: int, evidence: Float64) -> "Candidates":
        """Fills in those of the cases numbered from `first_case`, whose evidence is (B, P, K, Y).

        After the weak ones are dropped: of all of them it would be too much.
        """
        if self.by_class.shape[1] == 0:
            return self
        for row in np.flatnonzero(self.case >= first_case).tolist():
            first, stop = leading_run(self.evidence[row])
            self.by_class[row] = evidence[self.case[row] - first_case, first:stop, self.term[row]].sum(axis=0)
        return self

    def strongest(self, limit: int = MAX_SEGMENTS) -> "Candidates":
        """The first of every group, then the second of every group, … up to `limit`, each time the strongest first.

        What is dropped early could not have come back later, so cases may be added batch by batch.
        """
        order = np.lexsort((self.case, -self.strength, self.label, self.term, self.expert))
        keys = np.stack((self.expert, self.term, self.label))[:, order]
        new = np.concatenate(([True], (keys[:, 1:] != keys[:, :-1]).any(axis=0))) if len(order) else np.zeros(0, bool)
        begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
        rank = np.arange(len(order)) - begin
        kept, rank = order[rank < PER_GROUP], rank[rank < PER_GROUP]
        chosen = np.lexsort((self.expert[kept], self.term[kept], self.case[kept], -self.strength[kept], rank))[:limit]
        return self.take(kept[chosen])
