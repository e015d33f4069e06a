"""Defects in what the algebra says of filters that can never match, and of lists of filters."""

from __future__ import annotations

from tests.mutation._suites import Defect

SATISFIABILITY = ("tests/unit/algebra/test_satisfiability.py",)
REDUNDANCY = ("tests/unit/algebra/test_redundancy.py",)

ALGEBRA_DEFECTS = (
    # two conditions on one computed term are taken for two terms
    Defect("algebra/terms.py", "            self._narrowed[term_key(term)] = left\n", "", by=SATISFIABILITY),
    # a term may be greater than itself
    Defect("algebra/terms.py", '            signs &= SIGNS["="]\n', "            pass\n", by=SATISFIABILITY),
    # the order that two comparisons demand is not turned with their sides
    Defect(
        "algebra/terms.py",
        "            left, right, signs = right, left, frozenset(-sign for sign in signs)\n",
        "            left, right = right, left\n",
        by=SATISFIABILITY,
    ),
    # a list has no length
    Defect(
        "algebra/terms.py",
        "bool(domain.strings or domain.kinds[Kind.OTHER])",
        "bool(domain.strings)",
        by=("tests/unit/algebra/test_satisfiability.py",),
    ),
    # an event is said to match that no publisher can make
    Defect(
        "algebra/satisfiability.py",
        'and _has_topic(events.domain("topic")) else None',
        "else None",
        by=SATISFIABILITY,
    ),
    # the time of an event may be a text
    Defect(
        "algebra/satisfiability.py",
        "        seen = region.of_rows\n",
        "        seen = region\n",
        by=SATISFIABILITY,
    ),
    # filters that constrain the same attributes are not compared
    Defect(
        "algebra/redundancy.py",
        "            if wide <= shape:\n",
        "            if wide < shape:\n",
        by=REDUNDANCY,
    ),
    # a filter is named that does not stay
    Defect(
        "algebra/redundancy.py",
        "    while cover is not None and cover in dropped:\n",
        "    if cover in dropped:\n",
        by=REDUNDANCY,
    ),
)
