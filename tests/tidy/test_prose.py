"""Sentences of docstrings and comments: they name their subject, and use few indefinite pronouns.

The ratios are those of code bases that newcomers read easily: under 1% of sentences open with a headless
relative, and under 3 words in 1,000 are indefinite pronouns.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

import pytest
from tests.tidy._sources import SOURCES, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

HEADLESS = re.compile(r"(What|Who|Whoever|Whom|Whose|Whatever|Where|Which)\b(?!.*\?$)", re.DOTALL)
INDEFINITE = {
    "nobody", "somebody", "whoever", "anybody", "everybody", "whatever", "whose", "whom", "elsewhere",
    "nothing",
    "something",
}  # fmt: skip
MOST_HEADLESS, MOST_INDEFINITE = 0.01, 0.003
SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n- |\n\n")


def texts(source: str, tree: ast.Module) -> Iterator[str]:
    """Docstrings and comments of one file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def headless(spoken: Iterable[str]) -> tuple[list[str], int]:
    """Sentences of more than three words that open with a relative pronoun, and the number of all
    sentences."""
    sentences = [each.strip(" -\n") for text in spoken for each in SENTENCE_END.split(text)]
    sentences = [each for each in sentences if len(each.split()) > 3]
    return [each for each in sentences if HEADLESS.match(each)], len(sentences)


def indefinite(spoken: Iterable[str]) -> tuple[list[str], int]:
    words = [word.lower() for text in spoken for word in re.findall(r"[A-Za-z']+", text)]
    return [word for word in words if word in INDEFINITE], len(words)


def test_sentences_name_their_subject() -> None:
    spoken = [text for path in python_files(*SOURCES) for text in texts(path.read_text(), tree_of(path))]
    found, sentences = headless(spoken)
    assert len(found) < MOST_HEADLESS * sentences, "\n".join(found)
    vague, words = indefinite(spoken)
    assert len(vague) < MOST_INDEFINITE * words, f"{len(vague)} of {words} words"


def test_the_ratios_see_the_old_dialect() -> None:
    source = (
        '"""What came together is kept. A cursor over one log."""\n# Who waits for whom is told to '
        "nobody.\n# Why not?\n"
    )
    spoken = list(texts(source, ast.parse(source)))
    assert headless(spoken) == (["What came together is kept.", "Who waits for whom is told to nobody."], 3)
    assert indefinite(spoken)[0] == ["whom", "nobody"]
