"""The doors for records: one per format, through the whole pipeline to events and dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from connectors.record_schema import RecordKind
from tests.fuzz.cases import Input, Outcome
from tests.fuzz.doors.record_bytes import RecordWriter
from tests.fuzz.doors.record_schemas import schemas
from tests.fuzz.doors.record_variants import Variant, variants
from tests.fuzz.doors.record_world import AccountingDecoder, World


@dataclass(frozen=True, slots=True)
class RecordDoor:
    kind: RecordKind
    batch: int = 400
    renew_after: int = 4_000

    @property
    def name(self) -> str:
        return self.kind

    @property
    def variants(self) -> Sequence[str]:
        return tuple(variants(self.kind))

    def open(self, variant: str) -> "RecordSession":
        return RecordSession(variants(self.kind)[variant])


class RecordSession:
    def __init__(self, variant: Variant) -> None:
        self._writer = RecordWriter(variant)
        self._world = World(variant, _decoder(variant))

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return self._writer.records(rng, count, pool)

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        return self._world.feed(inputs)

    def close(self) -> None:
        self._world.close()


@cache
def _decoder(variant: Variant) -> AccountingDecoder:
    """Kept as long as the process, as in an agent: what it remembers about assets must stay bounded."""
    return AccountingDecoder([variant.layout], variant.format, schemas(variant.format.kind))
