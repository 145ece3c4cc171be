"""Whose record is it: from key or field to asset and group. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from msgspec.json import Decoder
from numpy.typing import NDArray

from connectors.decoding import documents
from connectors.decoding.results import Indices, Rejections
from connectors.decoding.typed import REQUIRED, decode_all, struct_type
from connectors.errors import RecordError
from connectors.layouts import GroupLayout

_MEMORY = 100_000  # remembered names; a flood of unknown names must not grow memory

Key = bytes | str | None


class Owner(NamedTuple):
    """An asset and its group's number, negative with the reason when nobody asked for it."""

    asset: str
    group: int
    error: RecordError | None = None


class Owners(NamedTuple):
    """The owners that occur in a batch, and which one each record has."""

    owners: list[Owner]
    code: NDArray[np.int64]
    group: NDArray[np.int64]
    """of each record, negative when nobody owns it"""

    def occurring(self, code: Indices, *, everything: bool) -> tuple[list[str], Indices]:
        """The assets among `code`, each once, and the index of each row's. `everything`: no record is missing."""
        if everything:
            return [owner.asset for owner in self.owners], code
        codes, asset = np.unique(code, return_inverse=True)
        return [self.owners[number].asset for number in codes.tolist()], asset

    def error(self, row: int) -> RecordError:
        return self.owners[self.code[row]].error or RecordError("unknown_asset", "")


class AssetDirectory:
    """Finds the group of an asset: exact ids first, then patterns in the order of the groups."""

    def __init__(self, groups: Sequence[GroupLayout]) -> None:
        names = [(name, number) for number, group in enumerate(groups) for name in group.assets]
        self._exact = dict(reversed(names))
        self._patterns = [(name, number) for name, number in names if set(name) & set("*?[")]
        self._seen: dict[Key, Owner] = {}

    def owners(self, keys: Sequence[Key]) -> Owners:
        """A key is the bytes of a Kafka key, or the text of a field."""
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        seen = self._seen
        found = [seen.get(key) or self._find(key) for key in codes]
        code = np.fromiter(map(codes.__getitem__, keys), np.int64, len(keys))
        return Owners(found, code, np.array([owner.group for owner in found], dtype=np.int64)[code])

    def _find(self, key: Key) -> Owner:
        if len(self._seen) >= _MEMORY:
            self._seen.clear()
        owner = self._seen[key] = self._identify(key)
        return owner

    def _identify(self, key: Key) -> Owner:
        try:
            asset = _text(key)
            return Owner(asset, self._group(asset))
        except RecordError as error:
            return Owner("", -1, error)

    def _group(self, asset: str) -> int:
        if asset in self._exact:
            return self._exact[asset]
        for pattern, number in self._patterns:
            if fnmatchcase(asset, pattern):
                return number
        raise RecordError("unknown_asset", f"{asset} belongs to no group", field=None)


def _text(key: Key) -> str:
    if not key:
        raise RecordError("missing_field", "the record has no key to name its asset", field="key")
    if isinstance(key, str):
        return key
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise RecordError("wrong_type", f"the key is not UTF-8: {error}", field="key") from error


class AssetField:
    """Reads the asset id out of JSON values, and nothing else of them."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._decode = Decoder(struct_type([(field, str, REQUIRED)])).decode

    def names(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        rows, indices = decode_all(values, self._decode, self._explain, rejections)
        return [row.f0 for row in rows], indices

    def _explain(self, value: bytes) -> None:
        documents.text(documents.parse(value), self._field)
