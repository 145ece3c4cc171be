"""What all published models have in common: no unknown fields, immutable, every field described. Pure."""

from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

VERSION = "2.0.0"
"""Version of the contract, not of the package: additions raise the minor number, other changes the major one."""

RFC3339_UTC = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$"

Timestamp = Annotated[AwareDatetime, WithJsonSchema({"type": "string", "format": "date-time", "pattern": RFC3339_UTC})]
"""RFC 3339 in UTC on the wire, up to nanoseconds; here a datetime, truncated to microseconds."""


class Contract(BaseModel):
    """Strict, so that tests find differences between code and contract. Readers validate with `extra="ignore"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False)


def contract_field(text: str, *, unit: str | None = None, **rules: Any) -> Any:
    """A field with its description; `unit` is the unit of its numbers, "1" for dimensionless ones."""
    return Field(description=text, json_schema_extra=None if unit is None else {"x-unit": unit}, **rules)
