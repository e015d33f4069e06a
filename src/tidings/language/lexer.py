"""Filter text to tokens: one compiled scanner, linear in the text.

Rules
- Keywords are case-insensitive. The nine of CESQL are reserved; ours (BETWEEN, IS, NULL, ...) are
  keywords only where an operator can stand, so that they remain names of attributes in other positions.
- A name is made of letters, digits and `_`, with dots between its parts; a part with other
  characters stands in backquotes (a backquote inside is doubled).
- In a string, a backslash before the string's own quote or before a backslash stands for that
  character; any other backslash is kept, since LIKE and REGEXP patterns need it. A doubled quote
  is one quote.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tidings.errors import FilterSyntaxError

RESERVED = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "FALSE"})
CONTEXTUAL = frozenset({"BETWEEN", "IS", "NULL", "REGEXP", "MATCHES", "TIMESTAMP"})
KEYWORDS = RESERVED | CONTEXTUAL

NAME, STRING, NUMBER, END = "name", "string", "number", "end"

_PART = r"(?:\w++|`(?:[^`]|``)*+`)"
_TOKEN = re.compile(
    rf"""\s*+(?:
      (?P<number>(?:[0-9]++(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w.`]))
    | (?P<name>(?![0-9]++\b){_PART}(?:\.{_PART})*+)
    | (?P<string>'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+")
    | (?P<sign><=|>=|<>|!=|=(?![=<>~])|[-+*/%<>(),])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIGN = "sign"
_KINDS = {word: word for word in KEYWORDS} | {"<>": "!="}
_BARE_NAME = re.compile(r"(?![0-9]++\b)\w++(?:\.\w++)*+\Z")
_NUMBER_LIKE = re.compile(r"[0-9]++[eE][0-9]++\Z")
_ESCAPES = {"'": re.compile(r"\\(['\\])|''"), '"': re.compile(r'\\(["\\])|""')}
_FOREIGN = {
    "==": "=",
    "&&": "AND",
    "||": "OR",
    "=<": "<=",
    "=>": ">=",
    "!": "NOT",
    "~=": "REGEXP",
    "=~": "REGEXP",
}


_CURLY = dict.fromkeys("\u2018\u2019\u201a\u201b\u00b4\u2032", "'") | dict.fromkeys(
    "\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'
)


class TokenLists(NamedTuple):
    """Parallel lists: kind (a keyword or sign is its own kind), value, and place in the text."""

    kinds: list[str]
    values: list[str]
    offsets: list[int]


def tokenise(text: str) -> TokenLists:
    """The tokens of a text, the last one of kind END."""
    kinds: list[str] = []
    values: list[str] = []
    offsets: list[int] = []
    position = 0
    for found in _TOKEN.finditer(text):
        if found.start() != position:  # skipped characters, since no token begins there
            break
        position = found.end()
        kind = found.lastgroup
        assert kind is not None
        value = found[kind]
        values.append(value)
        offsets.append(position - len(value))
        kinds.append(_KINDS.get(value) or _kind(kind, value))
    if not kinds or kinds[-1] != END:
        raise _lexical_error(text, position)
    return TokenLists(kinds, values, offsets)


def _kind(kind: str, value: str) -> str:
    if kind == NAME:
        word = value.upper()
        return word if word in KEYWORDS else NAME
    return value if kind == _SIGN else kind


def name_of(token: str) -> str:
    """The attribute's name that a name token stands for."""
    if "`" not in token:
        return token
    return "".join(
        part[1:-1].replace("``", "`") if part[0] == "`" else part
        for part in re.findall(r"`(?:[^`]|``)*`|[^`]+", token)
    )


def quote_name(name: str) -> str:
    """A name as it stands in a filter: in backquotes where it needs them."""
    if _BARE_NAME.match(name) and name.upper() not in KEYWORDS and not _NUMBER_LIKE.match(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def string_of(token: str) -> str:
    """The text that a string token stands for."""
    quote, body = token[0], token[1:-1]
    if "\\" not in body and quote not in body:
        return body
    return _ESCAPES[quote].sub(lambda found: found[1] or quote, body)


def quote_string(text: str) -> str:
    """A string as it stands in a filter."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lexical_error(text: str, position: int) -> FilterSyntaxError:
    while position < len(text) and text[position].isspace():
        position += 1
    rest = text[position : position + 2]
    if rest[0] in "'\"`":
        what = "backquoted name" if rest[0] == "`" else "string"
        return FilterSyntaxError(
            f"a {what} without its closing {rest[0]}", text=text, offset=position, expected=(rest[0],)
        )
    if rest[0] in _CURLY:
        return FilterSyntaxError(
            f"{rest[0]} is no quote of the language", text=text, offset=position, expected=("'",),
            hint=f"write a straight {_CURLY[rest[0]]} around a text",
        )  # fmt: skip
    suggestion = _FOREIGN.get(rest) or _FOREIGN.get(rest[0])
    shown = rest if rest in _FOREIGN else rest[0]
    if rest[0].isdigit() or (rest[0] == "." and rest[1:].isdigit()):
        return FilterSyntaxError("a number that cannot be read", text=text, offset=position)
    return FilterSyntaxError(
        f"{shown!r} has no meaning here", text=text, offset=position, suggestion=suggestion
    )
