"""Committed positions of sources without a broker: in memory or in a small file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from connectors.atomic_file import replace_file
from connectors.errors import ConnectorError
from connectors.records import Partition, Position


class OffsetStore(Protocol):
    """Committed positions; they outlive a source."""

    def get(self, partition: Partition) -> Position | None: ...
    def put(self, positions: Mapping[Partition, Position]) -> None: ...


class MemoryOffsetStore:
    """Positions that live as long as this object."""

    def __init__(self) -> None:
        self._positions: dict[Partition, Position] = {}

    def get(self, partition: Partition) -> Position | None:
        return self._positions.get(partition)

    def put(self, positions: Mapping[Partition, Position]) -> None:
        self._positions.update(positions)

    def forget(self, partition: Partition) -> None:
        self._positions.pop(partition, None)


class FileOffsetStore:
    """Positions in a JSON file, which is replaced as a whole.

    `log` names what the positions belong to, one name per partition; a file that was written for other names is
    refused, so that positions are never applied to the wrong log. More names may be appended.
    """

    def __init__(self, path: Path, log: tuple[str, ...]) -> None:
        self._path = path
        self._log = log
        self._positions = self._read()

    def get(self, partition: Partition) -> Position | None:
        return self._positions.get(partition)

    def put(self, positions: Mapping[Partition, Position]) -> None:
        self._positions.update(positions)
        rows = [[*partition, position.offset, position.metadata] for partition, position in self._positions.items()]
        try:
            replace_file(self._path, orjson.dumps({"log": self._log, "positions": rows}))
        except OSError as error:
            raise ConnectorError(f"cannot write the positions to {self._path}: {error.strerror}") from error

    def _read(self) -> dict[Partition, Position]:
        try:
            document = orjson.loads(self._path.read_bytes())
            self._check(document["log"])
            return {Partition(row[0], row[1]): Position(row[2], row[3]) for row in document["positions"]}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConnectorError(f"cannot read the positions in {self._path}: {error.strerror}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ConnectorError(f"{self._path} is not a file of positions: {error}") from error

    def _check(self, log: Any) -> None:
        if tuple(log) != self._log[: len(log)]:
            raise ConnectorError(
                f"the positions in {self._path} belong to {', '.join(log)}; delete the file to start from the beginning"
            )
