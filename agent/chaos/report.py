"""What a trial found out: per injury how long the agents needed, in the end which events differ. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.offline.compare import Comparison


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """`recovered_s`: until everything was committed that had been written before the injury was over.

    It counts from the moment the injured part was back, or from the injury itself where nothing had to come back.
    """

    injury: str
    recovered_s: float
    goal_s: float
    note: str = ""

    @property
    def in_time(self) -> bool:
        return self.recovered_s <= self.goal_s


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """`repeated` events came more than once with the same id and the same bytes, `conflicts` with other bytes.

    `wrong_states` are assets whose last state is not what their last event said.
    """

    namespace: str
    seed: int
    seconds: float
    records: int
    wounds: Sequence[FaultOutcome]
    comparison: Comparison
    published: int
    repeated: int
    conflicts: int
    history_lost: int
    wrong_states: Sequence[str] = ()

    @property
    def expected(self) -> int:
        return self.comparison.equal + len(self.comparison.different) + len(self.comparison.missing)

    @property
    def same(self) -> bool:
        return self.comparison.same and not self.conflicts and not self.wrong_states

    def as_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "namespace": self.namespace,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "records": self.records,
            "expected": self.expected,
            "published": self.published,
            "repeated": self.repeated,
            "conflicts": self.conflicts,
            "history_lost": self.history_lost,
            "wrong_states": list(self.wrong_states),
            "comparison": self.comparison.as_json(),
            "injuries": [asdict(wound) | {"recovered_s": round(wound.recovered_s, 2)} for wound in self.wounds],
        }
