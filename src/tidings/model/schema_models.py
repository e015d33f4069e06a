"""Schemas of Pydantic models, with what Pydantic leaves out and its models refuse: zones of moments, schemes
of URLs, texts of decimals, keys of mappings."""

from __future__ import annotations

from enum import Flag
from typing import Any

from tidings.model.schema_parts import ZONES, flag_schema

_NUMBER = "^[^a-zA-Z]*$|[0-9][eE]"  # neither NaN nor infinity


def schema_of_model(cls: Any) -> dict[str, Any]:
    """The JSON Schema of a Pydantic model, by the names of its fields."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def enum_schema(self, schema: Any) -> dict[str, Any]:
            made = super().enum_schema(schema)
            if not issubclass(schema["cls"], Flag):
                return made
            made.pop("enum", None)
            return {**made, **flag_schema(schema["cls"])}

        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            made = super().decimal_schema(schema)
            is_finite = not schema.get("allow_inf_nan")
            for part in made.get("anyOf", [made]):
                if part.get("type") == "string":
                    part |= {"format": "decimal", "pattern": _NUMBER} if is_finite else {"format": "decimal"}
                elif is_finite:
                    part["format"] = "decimal"
            return made

        def datetime_schema(self, schema: Any) -> dict[str, Any]:
            made = super().datetime_schema(schema)
            zone = schema.get("tz_constraint")
            return made if zone is None else {**made, "pattern": ZONES[zone]}

        def url_schema(self, schema: Any) -> dict[str, Any]:
            made = super().url_schema(schema)
            schemes = schema.get("allowed_schemes")
            return made if schemes is None else {**made, "pattern": f"^(?i:{'|'.join(schemes)}):"}

        def dict_schema(self, schema: Any) -> dict[str, Any]:
            made = super().dict_schema(schema)
            for pattern, member in made.pop("patternProperties", {}).items():
                made |= {"additionalProperties": member}
                made["propertyNames"] = {**made.get("propertyNames", {}), "pattern": pattern}
            keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
            if keys.get("type") == "integer":
                made["propertyNames"] = {**keys, "format": "integer"}
            return made

    made: dict[str, Any] = cls.model_json_schema(by_alias=False, schema_generator=Generator)
    return made
