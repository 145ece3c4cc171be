"""Avro records with the schema's id in front: all channels of one sample, as in wide records. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.decoding import diagnose
from connectors.decoding.assets import Key
from connectors.decoding.avro_columns import ColumnReader
from connectors.decoding.avro_schema import Step, compile_schema
from connectors.decoding.fast_json import epoch_ns
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, Values, in_log_order
from connectors.decoding.registered import Schema, SchemaGroup, SchemaSource, by_schema
from connectors.errors import RecordError, list_names
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import END_NS, NS_PER_UNIT, TimeReader

KIND = "AVRO"
_MAX_PLANS = 1_000
_SKIP, _TIME = -1, -2


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to do with each step: a channel's column, `_TIME` or `_SKIP`. `unknown`: how many channels are ignored."""

    steps: tuple[tuple[Step, int], ...]
    unknown: int


class AvroDecoder:
    """Decodes the records of one group. A schema is looked at once; what is wrong with it is wrong with its records."""

    def __init__(self, group: GroupLayout, format: RecordFormat, schemas: SchemaSource) -> None:
        self._group, self._format, self._schemas = group.name, format, schemas
        self._column = {channel.field: number for number, channel in enumerate(group.channels)}
        self._reader = TimeReader(format.time_unit, format.utc_offset_minutes)
        self._plans: dict[Schema, _Plan | RecordError] = {}

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        parts = []
        for found in by_schema(values, self._schemas, KIND, rejections):
            plan = self._plan(found.schema)
            if isinstance(plan, RecordError):
                rejections.update(dict.fromkeys(found.rows, plan))
            else:
                parts.append(self._read(plan, found, stamps_ns, rejections))
        return in_log_order(parts, len(self._column))

    def check(self, schema: Schema) -> None:
        """Raises `RecordError`."""
        self._make_plan(compile_schema(schema.text))

    def _plan(self, schema: Schema) -> _Plan | RecordError:
        plan = self._plans.get(schema)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            try:
                plan = self._make_plan(compile_schema(schema.text))
            except RecordError as error:
                plan = RecordError(error.reason, f"{schema}: {error.detail}", field=error.field)
            self._plans[schema] = plan
        return plan

    def _make_plan(self, steps: Sequence[Step]) -> _Plan:
        """Raises `RecordError`."""
        diagnose.check_count(len(steps), self._format.max_channels)
        targets = [self._target(step) for step in steps]
        names = [step.name for step in steps]
        if self._format.time_field is not None and _TIME not in targets:
            raise _mismatch(
                f"{self._format.time_field} is missing; it has {list_names(names)}", self._format.time_field
            )
        if not any(target >= 0 for target in targets):
            raise diagnose.no_known_channel(names, self._column, self._group, field=None)
        unknown = [
            name for name, target in zip(names, targets, strict=True) if target == _SKIP and self._is_unknown(name)
        ]
        if unknown and self._format.on_unknown_channel == "reject":
            raise diagnose.unknown_channel(unknown[0], self._column, self._group)
        return _Plan(tuple(zip(steps, targets, strict=True)), len(unknown))

    def _is_unknown(self, name: str) -> bool:
        prefix = self._format.values_field
        return name != self._format.asset_field and (prefix is None or name.startswith(f"{prefix}."))

    def _target(self, step: Step) -> int:
        if step.name == self._format.time_field:
            self._check_time(step)
            return _TIME
        prefix = self._format.values_field
        name = step.name if prefix is None else step.name.removeprefix(f"{prefix}.")
        if name not in self._column or (prefix is not None and step.path[0] != prefix):
            return _SKIP
        if not step.is_number:
            raise _mismatch(f"{step.name} is {step.described}, not a number", step.name)
        return self._column[name]

    def _check_time(self, step: Step) -> None:
        unit = self._format.time_unit
        fits = step.kind == "string" if unit == "iso" else step.kind in ("int", "long", "float", "double")
        if not fits or (unit == "ns" and step.kind in ("float", "double")):
            raise _mismatch(f"{step.name} is {step.described}; records.time.unit is {unit}", step.name)
        if step.unit is not None and step.unit != unit:
            raise _mismatch(f"{step.name} is in {step.unit}; records.time.unit is {unit}", step.name)

    def _read(self, plan: _Plan, found: SchemaGroup, stamps_ns: Times, rejections: Rejections) -> RawReadings:
        reader, rows = ColumnReader(found.bodies), np.array(found.rows, dtype=np.int64)
        numbers: Values = np.full((len(rows), len(self._column)), np.nan)
        times, bad = stamps_ns[rows], Rejections()
        for step, target in plan.steps:
            column = reader.read(step, wanted=target != _SKIP)
            if column is None or target == _SKIP:
                continue
            if target == _TIME:
                times = self._times(reader, step, column, bad)
            elif column.dtype == np.int64:
                numbers[:, target] = np.where(reader.missing, np.nan, column)
            else:
                numbers[:, target] = column
        reader.finish()
        bad.update(reader.errors)  # bytes that are wrong explain a time that is wrong, not the other way round
        rejections.update({found.rows[row]: error for row, error in bad.items()})
        return RawReadings(rows, times, numbers, plan.unknown * (len(rows) - len(bad)))

    def _times(
        self, reader: ColumnReader, step: Step, column: NDArray[np.float64] | NDArray[np.int64], bad: Rejections
    ) -> Times:
        if step.kind == "string":
            return self._read_slowly(step, [_text(reader, start, length) for start, length in column.tolist()], bad)
        absent = reader.missing if column.dtype == np.int64 else np.isnan(column)
        unit = self._format.time_unit
        inside = ~absent & (column >= 0) & (column < END_NS // NS_PER_UNIT[unit])
        times = epoch_ns(np.where(inside, column, 0), unit)
        for row in np.flatnonzero(~inside).tolist():
            alone = Rejections()
            times[row] = self._read_slowly(step, [None if absent[row] else column[row].item()], alone)[0]
            if alone:
                bad[row] = alone[0]
        return times

    def _read_slowly(self, step: Step, values: Sequence[object], bad: Rejections) -> Times:
        times = np.zeros(len(values), np.int64)
        for row, value in enumerate(values):
            try:
                if value is None:
                    raise RecordError("missing_field", f"{step.name} is null", field=step.name)
                times[row] = self._reader.read(value, step.name)
            except RecordError as error:
                bad[row] = error
        return times


class AvroAssetField:
    """Reads the asset id out of Avro records."""

    def __init__(self, field: str, schemas: SchemaSource) -> None:
        self._field, self._schemas = field, schemas

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        found: dict[int, Key] = {}
        for each in by_schema(values, self._schemas, KIND, rejections):
            for body, asset in self._read(each, rejections):
                found[each.rows[body]] = asset
        rows = sorted(found)
        return [found[row] for row in rows], np.array(rows, dtype=np.int64)

    def _read(self, found: SchemaGroup, rejections: Rejections) -> Iterator[tuple[int, str]]:
        try:
            steps = self._steps(found.schema)
        except RecordError as error:
            wrong = RecordError(error.reason, f"{found.schema}: {error.detail}", field=error.field)
            rejections.update(dict.fromkeys(found.rows, wrong))
            return
        reader, column = ColumnReader(found.bodies), None
        for step in steps:
            column = reader.read(step, wanted=True)
        assert column is not None
        for row, (start, length) in enumerate(column.tolist()):
            try:
                if row in reader.errors:
                    raise reader.errors[row]
                yield row, self._asset(_text(reader, start, length))
            except RecordError as error:
                rejections[found.rows[row]] = error

    def _steps(self, schema: Schema) -> Sequence[Step]:
        """Those up to the asset."""
        steps = compile_schema(schema.text)
        for number, step in enumerate(steps, 1):
            if step.name == self._field:
                if step.kind == "string":
                    return steps[:number]
                raise _mismatch(f"{self._field} is {step.described}, not a string", self._field)
        raise _mismatch(f"{self._field} is missing; it has {list_names(step.name for step in steps)}", self._field)

    def _asset(self, text: str | None) -> str:
        if not text:
            raise RecordError(
                "missing_field", f"{self._field} is {'null' if text is None else 'empty'}", field=self._field
            )
        return text


def _text(reader: ColumnReader, start: int, length: int) -> str | None:
    return None if length < 0 else reader.text(start, length).decode(errors="replace")


def _mismatch(detail: str, field: str) -> RecordError:
    return RecordError("schema_mismatch", detail, field=field)
