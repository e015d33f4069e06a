"""Data objects with their quality as JSON and as XML.

Rules
- JSON: a list of objects, each with `class`, `key`, `values`, `quality` (property, then dimension, then a
  number or the name of a level) and `children`.
- XML: a `d2q` document with one data graph and four quality graphs, one for each dimension. Every node of
  the data graph has an `oid`; a node of a quality graph names the one it speaks of in `of`, and is called
  after it: `Name_Accuracy`. A property that is known to be null has `null="true"`; one that is absent is not
  there.
- The document type definition is made of the schema (`dtd_of`), and written into each document.
- Reading refuses what the schema does not know, and every declaration of an entity: it never expands or
  fetches one. Size and depth have limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import (  # nosec B405 # builds documents, parses none
    Element,
    SubElement,
    TreeBuilder,
    indent,
    tostring,
)
from xml.parsers import expat

import msgspec

from tidings.errors import InputError
from tidings_quality.model import DataObject, Dimension, dimension_of, quality_value
from tidings_quality.schema import DataClass, Schema

MOST_BYTES = 64 * 2**20
DEEPEST = 64
ROOT, DATA, QUALITY = "d2q", "data", "quality"
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """An object as JSON writes it: qualities may be levels."""

    data_class: str = msgspec.field(name="class")
    key: str = ""
    values: dict[str, Any] = {}
    quality: dict[str, dict[str, float | str]] = {}
    children: tuple[_Given, ...] = ()


# -- JSON -------------------------------------------------------------------------------------------


def write_json(objects: Sequence[DataObject]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(objects), indent=2)


def read_json(text: str | bytes, schema: Schema) -> tuple[DataObject, ...]:
    """Objects of the schema, checked."""
    _check_size(text)
    try:
        given = msgspec.json.decode(text, type=tuple[_Given, ...])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"this is no list of objects: {error}") from None
    except RecursionError:
        raise InputError("the objects are nested too deeply") from None
    return tuple(_read(one, schema, "") for one in given)


def _read(given: _Given, schema: Schema, above: str) -> DataObject:
    found = schema.data_class(given.data_class)
    if given.data_class.rpartition("/")[0] != above:
        raise InputError(f"an object of {given.data_class} stands below one of {above or 'nothing'}")
    values = typed(schema, given.data_class, given.values)
    quality = {
        name: {str(dimension_of(what)): quality_value(value) for what, value in measured.items()}
        for name, measured in given.quality.items()
        if _kind(found, given.data_class, name)
    }
    children = tuple(_read(child, schema, given.data_class) for child in given.children)
    return DataObject(
        given.data_class, given.key or schema.key_of(given.data_class, values), values, quality, children
    )


def typed(schema: Schema, data_class: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON reads them, in the kinds that the schema says."""
    found = schema.data_class(data_class)
    return {name: _value(value, _kind(found, data_class, name)) for name, value in values.items()}


def _kind(found: DataClass, path: str, name: str) -> str:
    kind = found.properties.get(name)
    if kind is None:
        raise InputError(f"{path} has no property {name!r}", hint=", ".join(found.properties))
    return kind


def _value(value: Any, kind: str) -> Any:
    """A value as its kind is: timestamps are text in JSON, everything is text in XML."""
    if value is None:
        return None
    try:
        match kind:
            case "number" if isinstance(value, str):
                return float(value) if set(value) & set(".eEnN") else int(value)
            case "boolean" if isinstance(value, str):
                return {"true": True, "false": False}[value]
            case "timestamp" if isinstance(value, str):
                return datetime.fromisoformat(value)
    except (ValueError, KeyError):
        raise InputError(f"{value!r} is no {kind}") from None
    return value


# -- XML --------------------------------------------------------------------------------------------


def write_xml(objects: Sequence[DataObject], schema: Schema) -> bytes:
    """A document with its document type definition."""
    root = Element(ROOT)
    data = SubElement(root, DATA)
    numbered = [_write_data(data, one, schema, f"n{position}") for position, one in enumerate(objects, 1)]
    for dimension in Dimension:
        graph = SubElement(root, QUALITY, {"dimension": dimension})
        for one, oid in numbered:
            _write_quality(graph, one, oid, dimension)
    indent(root)
    body = tostring(root, encoding="unicode").replace("\r", "&#13;")
    if _NO_XML.search(body):
        raise InputError("a value has a control character, which XML cannot hold", hint="write JSON")
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE {ROOT} [\n{dtd_of(schema)}]>\n{body}\n'.encode()
    )


def _write_data(above: Element, one: DataObject, schema: Schema, oid: str) -> tuple[DataObject, str]:
    node = SubElement(above, one.data_class.rpartition("/")[2], {"oid": oid, "key": one.key})
    for name in schema.data_class(one.data_class).properties:
        if name in one.values:
            value = one.values[name]
            missing = {"null": "true"} if value is None else {}
            SubElement(node, name, {"oid": f"{oid}.{name}", **missing}).text = _text(value)
    for position, child in enumerate(one.children, 1):
        _write_data(node, child, schema, f"{oid}-{position}")
    return one, oid


def _write_quality(above: Element, one: DataObject, oid: str, dimension: Dimension) -> None:
    title = dimension.title()
    node = Element(f"{one.data_class.rpartition('/')[2]}_{title}", {"of": oid})
    for name, measured in one.quality.items():
        if dimension in measured:
            SubElement(node, f"{name}_{title}", {"of": f"{oid}.{name}"}).text = repr(measured[dimension])
    for position, child in enumerate(one.children, 1):
        _write_quality(node, child, f"{oid}-{position}", dimension)
    if len(node):
        above.append(node)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def dtd_of(schema: Schema) -> str:
    """The document type definition: data classes, and a quality class for each of them and each dimension."""
    tops = [found.name for found in schema.classes]
    lines = [
        f"<!ELEMENT {ROOT} ({DATA}, {QUALITY}*)>",
        f"<!ELEMENT {DATA} ({' | '.join(tops)})*>",
        f"<!ELEMENT {QUALITY} ({' | '.join(f'{top}_{one.title()}' for one in Dimension for top in tops)})*>",
        f"<!ATTLIST {QUALITY} dimension ({' | '.join(Dimension)}) #REQUIRED>",
    ]
    for found in schema.by_path.values():
        lines += _class_lines(found)
    return "".join(line + "\n" for line in dict.fromkeys(lines))


def _class_lines(found: DataClass) -> Iterator[str]:
    children = [child.name for child in found.children]
    inside = [f"{name}?" for name in found.properties] + [f"{child}*" for child in children]
    yield f"<!ELEMENT {found.name} ({', '.join(inside)})>"
    yield f"<!ATTLIST {found.name} oid ID #REQUIRED key CDATA #REQUIRED>"
    for name in found.properties:
        yield f"<!ELEMENT {name} (#PCDATA)>"
        yield f"<!ATTLIST {name} oid ID #REQUIRED null (true) #IMPLIED>"
    for dimension in Dimension:
        title = dimension.title()
        inside = [f"{name}_{title}?" for name in found.properties] + [
            f"{child}_{title}*" for child in children
        ]
        yield f"<!ELEMENT {found.name}_{title} ({', '.join(inside)})>"
        yield f"<!ATTLIST {found.name}_{title} of IDREF #REQUIRED>"
        for name in found.properties:
            yield f"<!ELEMENT {name}_{title} (#PCDATA)>"
            yield f"<!ATTLIST {name}_{title} of IDREF #REQUIRED>"


def read_xml(text: str | bytes, schema: Schema) -> tuple[DataObject, ...]:
    """Objects of the schema, checked."""
    root = _parsed(text)
    if root.tag != ROOT or [child.tag for child in root][:1] != [DATA]:
        raise InputError(f"this is no {ROOT} document", hint=f"<{ROOT}><{DATA}>...</{DATA}>...</{ROOT}>")
    quality: dict[str, dict[str, float]] = {}
    for graph in root[1:]:
        if graph.tag != QUALITY:
            raise InputError(f"<{graph.tag}> does not belong into a {ROOT} document")
        _read_graph(graph, dimension_of(graph.get("dimension", "")), quality)
    objects = tuple(_read_node(node, schema, "", quality) for node in root[0])
    if quality:
        raise InputError(f"a quality of {min(quality)!r}, which the data graph does not have")
    return objects


def _read_graph(node: Element, dimension: Dimension, into: dict[str, dict[str, float]]) -> None:
    for child in node:
        if not child.tag.endswith(f"_{dimension.title()}") or not child.get("of"):
            raise InputError(f"<{child.tag}> in the graph of {dimension}")
        words = (child.text or "").strip()
        if words:
            try:
                value = float(words)
            except ValueError:
                value = quality_value(words)
            into.setdefault(child.attrib["of"], {})[dimension] = quality_value(value)
        _read_graph(child, dimension, into)


def _read_node(node: Element, schema: Schema, above: str, quality: dict[str, dict[str, float]]) -> DataObject:
    path = f"{above}/{node.tag}" if above else node.tag
    found = schema.data_class(path)
    values: dict[str, Any] = {}
    measured: dict[str, dict[str, float]] = {}
    children: list[DataObject] = []
    for child in node:
        if f"{path}/{child.tag}" in schema.by_path:
            children.append(_read_node(child, schema, path, quality))
            continue
        kind = _kind(found, path, child.tag)
        values[child.tag] = None if child.get("null") == "true" else _value(child.text or "", kind)
        _take(quality, child.get("oid", ""), measured, child.tag)
    for name in found.properties:  # a property that is not there can be of low completeness all the same
        _take(quality, f"{node.get('oid')}.{name}", measured, name)
    key = node.get("key") or schema.key_of(path, values)
    return DataObject(path, key, values, measured, tuple(children))


def _take(
    quality: dict[str, dict[str, float]], oid: str, into: dict[str, dict[str, float]], name: str
) -> None:
    if oid in quality:
        into[name] = quality.pop(oid)


def _parsed(text: str | bytes) -> Element:
    """The tree of a document, by a parser that takes no entities."""
    _check_size(text)
    builder, depth = TreeBuilder(), 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise InputError(f"elements nested more than {DEEPEST} deep")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = _no_entities
    parser.ExternalEntityRefHandler = _no_entities
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InputError(f"this is no XML: {error}") from None
    return builder.close()


def _no_entities(*_: Any) -> int:
    raise InputError("entities are not read", hint="write what they stand for")


def _check_size(text: str | bytes) -> None:
    if len(text) > MOST_BYTES:
        raise InputError(f"a document of {len(text)} bytes; the most is {MOST_BYTES}")
