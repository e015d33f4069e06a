"""Regular expressions of RE2 as ones that Java reads the same way, for Spark's RLIKE.

Rules
- The pattern is read into what it matches and written anew, with no flag and no shorthand that the
  two libraries read differently: `.` becomes a class, `$` becomes `\\z`, `\\s` is spelt out, groups
  do not capture, case is folded here.
- A construct without an exact form (word boundaries, Unicode classes, multi-line mode, folding the case of
  letters beyond ASCII, single bytes) is refused by name; there is no approximation.
- RE2 is linear and Java is not: a hostile pattern can be slow on Spark. That is said in the docs.
"""

from __future__ import annotations

from typing import TypeAlias

from tidings.errors import FilterError
from tidings.model.pattern import check_regexp

Ranges: TypeAlias = list[tuple[int, int]]  # code points, both ends included

_LAST = 0x10FFFF
_DIGITS: Ranges = [(48, 57)]
_WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
_SPACE: Ranges = [(9, 10), (12, 13), (32, 32)]
_PERL = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: dict[str, Ranges] = {
    "alnum": [(48, 57), (65, 90), (97, 122)], "alpha": [(65, 90), (97, 122)], "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)], "cntrl": [(0, 31), (127, 127)], "digit": _DIGITS, "graph": [(33, 126)],
    "lower": [(97, 122)], "print": [(32, 126)], "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)], "upper": [(65, 90)], "word": _WORD,
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}  # fmt: skip
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ALSO = {"k": 0x212A, "s": 0x17F}  # letters that fold to an ASCII one: the Kelvin sign, the long s


def java_regexp(pattern: str) -> str:
    """The pattern for Java, or a `FilterError` that names what Java would read differently."""
    check_regexp(pattern)
    reader = _RegexpReader(pattern)
    text = reader.alternatives(fold=False, dot_all=False)
    if reader.position < len(pattern):
        raise reader.refused("an unmatched bracket")
    return text


def literal_regexp(text: str) -> str:
    """A pattern that matches just that text."""
    return "".join(_character(ord(ch)) for ch in text)


class _RegexpReader:
    """A recursive reader; RE2 has already said that the pattern is well formed."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def refused(self, what: str) -> FilterError:
        return FilterError(
            f"regular expression {self.pattern!r}: {what} has no exact form on Spark",
            hint="spell out the characters that are meant",
        )

    def rest(self) -> str:
        return self.pattern[self.position :]

    def taken(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def alternatives(self, *, fold: bool, dot_all: bool) -> str:
        """Up to a closing bracket or the end. A flag group holds to there, over `|` too."""
        pieces: list[str] = []
        while self.position < len(self.pattern) and self.pattern[self.position] != ")":
            if self.taken("|"):
                pieces.append("|")
            elif (flags := self.flag_group()) is not None:
                fold, dot_all = self.switched(flags, fold, dot_all)
            elif self.taken("\\Q"):
                pieces += self.quoted(fold)
            else:
                pieces.append(self.repeated(self.atom(fold, dot_all)))
        return "".join(pieces)

    def quoted(self, fold: bool) -> list[str]:
        """The characters up to `\\E`; a count after it is for the last of them."""
        end = self.pattern.find("\\E", self.position)
        text = self.pattern[self.position : end if end >= 0 else len(self.pattern)]
        if not text:
            raise self.refused("an empty quotation")
        self.position = end + 2 if end >= 0 else len(self.pattern)
        literals = [self.literal(ord(ch), fold) for ch in text]
        return [*literals[:-1], self.repeated(literals[-1])]

    def flag_group(self) -> str | None:
        """The flags of `(?flags)`, which changes what follows; None when there is none here."""
        rest = self.rest()
        end = rest.find(")")
        if rest.startswith("(?") and end > 0 and all(ch in "imsU-" for ch in rest[2:end]):
            self.position += end + 1
            return rest[2:end]
        return None

    def switched(self, flags: str, fold: bool, dot_all: bool) -> tuple[bool, bool]:
        on, _, off = flags.partition("-")
        if "m" in on:
            raise self.refused("the flag m")
        return (fold or "i" in on) and "i" not in off, (dot_all or "s" in on) and "s" not in off

    def repeated(self, atom: str) -> str:
        while (count := self.count()) is not None:
            atom = f"(?:{atom}){count}"
        return atom

    def count(self) -> str | None:
        """`*`, `+`, `?` or `{n,m}`, greedy: laziness changes which match is found, never whether."""
        for sign in "*+?":
            if self.taken(sign):
                self.taken("?")
                return sign
        if not self.taken("{"):
            return None
        end = self.pattern.find("}", self.position)
        low, comma, high = self.pattern[self.position : end].partition(",") if end >= 0 else ("", "", "")
        if not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            self.position -= 1  # a plain brace
            return None
        self.position = end + 1
        self.taken("?")
        return f"{{{low}{comma}{high}}}"

    def atom(self, fold: bool, dot_all: bool) -> str:
        ch = self.pattern[self.position]
        self.position += 1
        if ch == ".":
            return _class([(0, _LAST)] if dot_all else [(0, 9), (11, _LAST)])
        if ch == "^":
            return r"\A"
        if ch == "$":
            return r"\z"
        if ch == "(":
            return self.group(fold, dot_all)
        if ch == "[":
            return self.bracket(fold)
        if ch == "\\":
            return self.escape(fold)
        return self.literal(ord(ch), fold)

    def group(self, fold: bool, dot_all: bool) -> str:
        if self.taken("?P<") or self.taken("?<"):
            self.position = self.pattern.index(">", self.position) + 1
        elif self.taken("?"):
            end = self.pattern.index(":", self.position)
            fold, dot_all = self.switched(self.pattern[self.position : end], fold, dot_all)
            self.position = end + 1
        inner = self.alternatives(fold=fold, dot_all=dot_all)
        self.position += 1
        return f"(?:{inner})"

    def literal(self, code: int, fold: bool) -> str:
        if fold:
            folded = self.folded([(code, code)])
            if len(folded) > 1:
                return _class(folded)
        return _character(code)

    def escape(self, fold: bool) -> str:
        ch = self.pattern[self.position]
        if ch in "Az":
            self.position += 1
            return "\\" + ch
        if ch in "bB":
            raise self.refused(f"the word boundary \\{ch}")
        if ch.lower() in _PERL:
            self.position += 1
            ranges = _PERL[ch.lower()]
            return _class(self.folded(ranges) if fold else ranges, negated=ch.isupper())
        return self.literal(self.escaped_code(), fold)

    def escaped_code(self) -> int:
        """The character after a backslash that is already read."""
        ch = self.pattern[self.position]
        self.position += 1
        if ch in "pP":
            raise self.refused(f"the Unicode class \\{ch}")
        if ch == "C":
            raise self.refused("the single byte \\C")
        if ch == "x":
            return self.hexadecimal()
        if ch in "01234567":
            digits = ch
            while len(digits) < 3 and self.rest()[:1] in tuple("01234567"):
                digits += self.pattern[self.position]
                self.position += 1
            return int(digits, 8)
        if ch in _CONTROLS:
            return _CONTROLS[ch]
        if ch.isalnum():
            raise self.refused(f"the escape \\{ch}")
        return ord(ch)

    def hexadecimal(self) -> int:
        if self.taken("{"):
            end = self.pattern.index("}", self.position)
            digits, self.position = self.pattern[self.position : end], end + 1
        else:
            digits, self.position = self.pattern[self.position : self.position + 2], self.position + 2
        return int(digits, 16)

    def bracket(self, fold: bool) -> str:
        negated = self.taken("^")
        ranges: Ranges = []
        first = True
        while first or self.pattern[self.position] != "]":
            first = False
            ranges += self.member()
        self.position += 1
        return _class(self.folded(ranges) if fold else _merged(ranges), negated=negated)

    def member(self) -> Ranges:
        """One element of a class: a named class, a character, or a range of characters."""
        if self.taken("[:"):
            end = self.pattern.index(":]", self.position)
            name, self.position = self.pattern[self.position : end], end + 2
            ranges = _POSIX[name.removeprefix("^")]
            return _complement(ranges) if name.startswith("^") else ranges
        if self.pattern[self.position] == "\\" and self.pattern[self.position + 1].lower() in _PERL:
            letter = self.pattern[self.position + 1]
            self.position += 2
            return _complement(_PERL[letter.lower()]) if letter.isupper() else _PERL[letter]
        low = self.class_character()
        rest = self.rest()
        if rest.startswith("-") and not rest.startswith("-]"):
            self.position += 1
            return [(low, self.class_character())]
        return [(low, low)]

    def class_character(self) -> int:
        ch = self.pattern[self.position]
        self.position += 1
        return self.escaped_code() if ch == "\\" else ord(ch)

    def folded(self, ranges: Ranges) -> Ranges:
        """The ranges with the other case of every ASCII letter in them."""
        result = list(ranges)
        for low, high in ranges:
            if high > 127 and _has_case(max(low, 128), high):
                raise self.refused("folding the case of letters beyond ASCII")
            for code in range(max(low, 65), min(high, 122) + 1):
                letter = chr(code)
                if letter.isalpha():
                    result.append((ord(letter.swapcase()), ord(letter.swapcase())))
                    also = _ALSO.get(letter.lower())
                    result += [(also, also)] if also else []
        return _merged(result)


def _has_case(low: int, high: int) -> bool:
    if high - low > 4096:
        return True  # a range this wide holds letters
    return any(chr(code).lower() != chr(code).upper() for code in range(low, high + 1))


def _merged(ranges: Ranges) -> Ranges:
    result: Ranges = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _complement(ranges: Ranges) -> Ranges:
    result, start = [], 0
    for low, high in _merged(ranges):
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    return [*result, (start, _LAST)] if start <= _LAST else result


def _class(ranges: Ranges, *, negated: bool = False) -> str:
    inner = "".join(
        _character(low) if low == high else f"{_character(low)}-{_character(high)}" for low, high in ranges
    )
    return f"[{'^' if negated else ''}{inner}]"


def _character(code: int) -> str:
    """A character that means itself, inside a class and outside."""
    ch = chr(code)
    if code < 128:
        return ch if ch.isalnum() or ch in " _/,:;=@~<>\"'%!" else f"\\x{code:02x}"
    return ch if ch.isprintable() else f"\\x{{{code:x}}}"
