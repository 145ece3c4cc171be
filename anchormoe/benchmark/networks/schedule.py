"""How long a network is trained: a number of epochs from the size of TRAIN, known before training. Pure."""

from dataclasses import dataclass

LONG_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """Enough updates on every set, judged by TRAIN loss alone, at a cost that is bounded on every set.

    `visits` is how often a case is seen in all and `visited_steps` how often a step is (cost grows with it); both give
    way to `min_epochs`, since a set with many cases or classes takes more than a few epochs, and `max_epochs` bounds
    small sets. Series with more than `LONG_STEPS` steps come in smaller batches: fewer epochs, as many updates.
    """

    visits: int = 16_000
    visited_steps: float = 4_000_000
    min_epochs: int = 15
    max_epochs: int = 100
    batch: int = 16
    long_batch: int = 4

    def epochs(self, cases: int, steps: int) -> int:
        """For `cases` series of TRAIN, all padded to `steps`."""
        wanted = min(self.visits / cases, self.visited_steps / (cases * steps))
        return min(self.max_epochs, max(self.min_epochs, round(wanted)))

    def batch_size(self, steps: int) -> int:
        return self.long_batch if steps > LONG_STEPS else self.batch

    def describe(self, cases: int, steps: int) -> str:
        """What a stored run must have in common with a new one."""
        return f"{self.epochs(cases, steps)} epochs, batch {self.batch_size(steps)}"


USUAL = Schedule()
LINEAR = Schedule(min_epochs=200, max_epochs=200)
"""For DLinear, whose epochs cost next to nothing and which begins as a plain mean over time."""
CHEAP = Schedule(visits=400_000, visited_steps=float("inf"), min_epochs=50, max_epochs=200)
"""For LightTS."""
SHORTER = Schedule(visits=8_000, visited_steps=1_000_000, min_epochs=6, max_epochs=200)
"""For MPTSNet, whose epochs are dear even at reduced width; its TRAIN loss stands in the table."""
