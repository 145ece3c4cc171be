"""Durations ("100ms") and sizes ("64MiB"): written with a unit, kept as a whole number. Pure."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from agent.settings.problems import invalid

_LARGEST = 2**62  # stays inside int64 with room for sums


class _Quantity(int):
    """A positive whole number of the smallest unit; printed in the largest unit that is exact."""

    UNITS: ClassVar[Mapping[str, int]]
    EXAMPLES: ClassVar[str]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Raises an error that says how to write it."""
        if isinstance(text, cls):
            return text
        matched = re.fullmatch(cls.pattern(), text) if isinstance(text, str) else None
        if matched is None:
            raise invalid(f"{text!r} is not a number with a unit", f"write it like {cls.EXAMPLES}")
        amount = Fraction(matched[1]) * cls.UNITS[matched[2]]
        if amount.denominator != 1 or not 0 < amount < _LARGEST:
            raise invalid(f"{text!r} is out of range", f"write a positive value like {cls.EXAMPLES}")
        return cls(amount)

    @classmethod
    def pattern(cls) -> str:
        return rf"^([0-9]+(?:\.[0-9]+)?) ?({'|'.join(cls.UNITS)})$"

    def __str__(self) -> str:
        unit = max((unit for unit, size in self.UNITS.items() if self % size == 0), key=lambda unit: self.UNITS[unit])
        return f"{int(self) // self.UNITS[unit]}{unit}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_text = core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema())
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=as_text)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": cls.pattern(), "examples": re.findall(r'"(.*?)"', cls.EXAMPLES)}


class Duration(_Quantity):
    """Nanoseconds."""

    UNITS: ClassVar[Mapping[str, int]] = {
        "ns": 1,
        "us": 1_000,
        "ms": 1_000_000,
        "s": 1_000_000_000,
        "m": 60_000_000_000,
        "h": 3_600_000_000_000,
        "d": 86_400_000_000_000,
    }
    EXAMPLES = '"100ms", "5s", "10m", "2h" or "7d"'

    @property
    def seconds(self) -> float:
        return self / 1_000_000_000

    @property
    def milliseconds(self) -> int:
        """Rounded up, so that a time-out never becomes zero."""
        return -(-int(self) // 1_000_000)


class Size(_Quantity):
    """Bytes."""

    UNITS: ClassVar[Mapping[str, int]] = {
        "B": 1,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
    }
    EXAMPLES = '"512KiB", "64MiB" or "2GiB"'
