"""Seeded defects: one small mistake each, of the kinds that people make, in code that promises something.

They were written down before the suite was asked. A defect is (file, what stands there, what is put there);
what stands there stands there once. `PACKAGES` of `_suites.py` says which tests look after a package; they
are the package's own tests, chosen by name and not by defect, the quickest first.
"""

from __future__ import annotations

from tests.mutation._algebra_defects import ALGEBRA_DEFECTS
from tests.mutation._body_defects import BODIES
from tests.mutation._delivery_defects import DELIVERY_DEFECTS
from tests.mutation._early_defects import EARLY
from tests.mutation._extension_defects import EXTENSIONS
from tests.mutation._found_defects import FOUND
from tests.mutation._gateway_defects import GATEWAYS
from tests.mutation._order_defects import ORDER_DEFECTS
from tests.mutation._restore_defects import RESTORES
from tests.mutation._schema_defects import SCHEMA_DEFECTS
from tests.mutation._spark_defects import SPARK_DEFECTS
from tests.mutation._suites import PACKAGES, Defect
from tests.mutation._web_defects import WEB

__all__ = ["DEFECTS", "PACKAGES", "Defect"]

DEFECTS = (
    *(*EARLY, *FOUND, *EXTENSIONS, *GATEWAYS, *WEB, *BODIES),
    *(*DELIVERY_DEFECTS, *SCHEMA_DEFECTS, *SPARK_DEFECTS, *RESTORES, *ORDER_DEFECTS),
    *ALGEBRA_DEFECTS,
)
