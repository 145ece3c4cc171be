"""JSON Schemas, the AsyncAPI and the OpenAPI document as Markdown tables. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]

STAR = "\\*"
_LIMITS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "maxLength": "length ≤",
    "minItems": "items ≥",
    "maxItems": "items ≤",
}


@dataclass(frozen=True, slots=True)
class Definitions:
    """Named schemas; `elsewhere` are those with an address other than a heading on this page."""

    schemas: Mapping[str, Schema]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def link(self, schema: Schema) -> str:
        name = _named(schema)
        return f"[{name}]({self.elsewhere.get(name, anchor(name))})"

    def description(self, schema: Schema) -> str:
        """Its own, or that of the definition it refers to."""
        return str(schema.get("description") or self.schemas.get(_named(schema), {}).get("description", ""))


def _named(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def anchor(name: str) -> str:
    return f"#{name.lower()}"


def schema_title(name: str) -> str:
    """`alarm-audit.schema.json` is the alarm audit schema."""
    return f"{name.removesuffix('.schema.json').replace('-', ' ').capitalize()} schema"


def schema_page(name: str, schema: Schema) -> str:
    """The root first, then every definition in the order in which it is first named."""
    definitions = Definitions(schema.get("$defs", {}))
    identity = f", `{schema['$id']}`" if "$id" in schema else ""
    parts = [f"# {schema_title(name)}", f"The file: [{name}]({name}){identity}", *_body(schema, definitions)]
    for one in _by_first_mention(schema, definitions.schemas):
        parts += [f"## {one}", *_body(definitions.schemas[one], definitions)]
    return "\n\n".join(parts)


def _by_first_mention(root: Schema, schemas: Mapping[str, Schema]) -> list[str]:
    order: list[str] = []
    waiting: list[Schema] = [root]
    while waiting:
        without = {key: value for key, value in waiting.pop(0).items() if key != "$defs"}
        for name in re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(without)):
            if name not in order:
                order.append(name)
                waiting.append(schemas[name])
    return order


def _body(schema: Schema, definitions: Definitions) -> list[str]:
    parts = [str(schema["description"])] if "description" in schema else []
    return [*parts, _fields(schema, definitions) if schema.get("properties") else type_name(schema, definitions)]


def _fields(schema: Schema, definitions: Definitions) -> str:
    required = set(schema.get("required", ()))
    rows = [
        [f"{_code(name)}{STAR if name in required else ''}", type_name(one, definitions), _meaning(one, definitions)]
        for name, one in schema["properties"].items()
    ]
    return _table(["field", "type", "meaning"], rows) + (f"\n\n{STAR} required" if required else "")


def type_name(schema: Schema, definitions: Definitions) -> str:
    """In words, with links to other definitions."""
    if "$ref" in schema:
        return definitions.link(schema)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(type_name(one, definitions) for one in schema[several])
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return " or ".join(_value(one) for one in schema["enum"])
    return _plain_type(schema, definitions)


def _plain_type(schema: Schema, definitions: Definitions) -> str:
    kind = str(schema.get("type", "anything"))
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(type_name(one, definitions) for one in schema['prefixItems'])}]"
    if kind == "array":
        return f"list of {type_name(schema.get('items', {}), definitions)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {type_name(schema['additionalProperties'], definitions)}"
    if kind == "object" and schema.get("properties"):
        return f"object with {' or '.join(_code(name) for name in schema['properties'])}"
    return f"{kind}, {schema['format']}" if "format" in schema else kind


def _meaning(schema: Schema, definitions: Definitions) -> str:
    facts = "".join(f" {fact}." for fact in _facts(schema))
    return definitions.description(schema) + facts


def _facts(schema: Schema) -> Iterable[str]:
    """Unit, limits, form and default, as far as they say something. Those of `X or null` are those of X."""
    alone = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    known = {**(alone[0] if len(alone) == 1 else {}), **schema}
    if known.get("x-unit", "1") != "1":
        yield f"Unit {_code(known['x-unit'])}"
    limits = [f"{sign} {known[key]}" for key, sign in _LIMITS.items() if key in known]
    if limits:
        yield ", ".join(limits).capitalize()
    if "examples" in known:
        yield f"Like {', '.join(_value(one) for one in known['examples'])}"
    elif "pattern" in known and known.get("format") != "date-time":
        yield f"Matches {_code(known['pattern'])}"
    if known.get("default") is not None and not isinstance(known["default"], dict):
        yield f"Default {_value(known['default'])}"


def _value(value: Any) -> str:
    return _code(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def asyncapi_page(name: str, document: Schema, elsewhere: Mapping[str, str]) -> str:
    """Topics and their messages. Definitions that have a page elsewhere are linked, the others follow."""
    definitions = Definitions(document["components"]["schemas"], elsewhere)
    info, version = document["info"], document["asyncapi"]
    parts = [
        "# AsyncAPI",
        f"Version {info['version']} of what is published, as AsyncAPI {version}. The file: [{name}]({name})",
        str(info["description"]),
    ]
    for topic, channel in document["channels"].items():
        parts += [f"## Topic {topic}", *_channel(channel, document["components"]["messages"], definitions)]
    for one, schema in definitions.schemas.items():
        if one not in elsewhere:
            parts += [f"## {one}", *_body(schema, definitions)]
    return "\n\n".join(parts)


def _channel(channel: Schema, messages: Mapping[str, Schema], definitions: Definitions) -> list[str]:
    policies = channel["bindings"]["kafka"].get("topicConfiguration", {}).get("cleanup.policy", [])
    rows = [_message(messages[name], definitions) for name in channel["messages"]]
    description = f"{channel['description']}{' Compacted.' if 'compact' in policies else ''}"
    return [description, _table(["message", "key", "headers", "value"], rows)]


def _message(message: Schema, definitions: Definitions) -> list[str]:
    headers, payload = message.get("headers", {}), message["payload"]
    shared = next(iter(headers.get("allOf", [headers])))
    return [
        message["title"],
        message["bindings"]["kafka"]["key"].get("description", ""),
        type_name(shared, definitions) if headers else "",
        payload.get("description") or type_name(payload, definitions),
    ]


def openapi_page(name: str, document: Schema, elsewhere: Mapping[str, str]) -> str:
    """Routes with what they take and answer. Definitions that have a page elsewhere are linked, the others follow."""
    definitions = Definitions(document["components"]["schemas"], elsewhere)
    info = document["info"]
    rows = [
        [_code(f"{verb.upper()} {route}"), one["summary"], _inputs(one, definitions), _answer(one, definitions)]
        for route, verbs in document["paths"].items()
        for verb, one in verbs.items()
    ]
    parts = [
        "# OpenAPI",
        f"{info['title']}, version {info['version']}. The file: [{name}]({name})",
        str(info["description"]),
        _table(["route", "what it does", "takes", "answers"], rows),
    ]
    for one, schema in definitions.schemas.items():
        if one not in elsewhere:
            parts += [f"## {one}", *_body(schema, definitions)]
    return "\n\n".join(parts)


def _inputs(operation: Schema, definitions: Definitions) -> str:
    named = [f"{_code(one['name'])}{STAR if one['required'] else ''}" for one in operation["parameters"]]
    return ", ".join([*named, *_contents(operation.get("requestBody", {}), definitions)])


def _answer(operation: Schema, definitions: Definitions) -> str:
    good = [answer for code, answer in operation["responses"].items() if code.startswith("2")]
    return ", ".join(one for answer in good for one in _contents(answer, definitions))


def _contents(message: Schema, definitions: Definitions) -> list[str]:
    contents = message.get("content", {}).items()
    return [type_name(one["schema"], definitions) if kind == "application/json" else kind for kind, one in contents]


def described_by(document: Schema) -> Callable[[str, Schema, Mapping[str, str]], str] | None:
    """The page of an API description; None for a schema of one document."""
    return next((page for key, page in _API_PAGES.items() if key in document), None)


_API_PAGES = {"asyncapi": asyncapi_page, "openapi": openapi_page}
