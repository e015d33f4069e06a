"""The running example of Virgillito (2003), section 5.2.1: enterprises and their holders.

Three organisations of the Italian administration hold copies: the social security agency (INPS), the
accident insurance agency (INAIL) and the Chambers of Commerce (CoC). The class `Enterprise` has a
code, a name and a set of holders. The words of the local schemas are our own: the text of the thesis
names the figure that shows them and not what is in it.
"""

from __future__ import annotations

from tidings_quality.model import DataObject, Level
from tidings_quality.schema import ClassHolding, DataClass, OrganisationSchema, Schema

ENTERPRISE = "Enterprise"
HOLDER = "Enterprise/Holder"

_HOLDER_PROPERTIES = {"Name": "string", "Address": "string", "FiscalCode": "string"}


def running_example() -> Schema:
    """The schema, with all three organisations holding both classes."""
    return Schema(
        classes=(
            DataClass(
                "Enterprise", {"Code": "string", "EntName": "string"}, key="Code",
                children=(DataClass("Holder", dict(_HOLDER_PROPERTIES), key="FiscalCode"),),
            ),
        ),
        organisations=(
            OrganisationSchema("INPS", (
                ClassHolding(ENTERPRISE, "Business", {"BusinessCode": "Code", "BusinessName": "EntName"}),
                ClassHolding(HOLDER, "Owner",
                    {"OwnerName": "Name", "OwnerAddress": "Address", "OwnerCode": "FiscalCode"}),
            )),
            OrganisationSchema("INAIL", (
                ClassHolding(ENTERPRISE, "Firm", {"FirmCode": "Code", "FirmName": "EntName"}),
                ClassHolding(HOLDER, "Employer",
                    {"FullName": "Name", "Residence": "Address", "TaxCode": "FiscalCode"}),
            )),
            OrganisationSchema("CoC", (ClassHolding(ENTERPRISE), ClassHolding(HOLDER))),
        ),
    ).check()  # fmt: skip


def apt_a() -> DataObject:
    """The enterprise APT A with two holders, as in Figure 5.3; the qualities are our own."""
    fine = {"accuracy": 0.95, "completeness": 1.0, "currency": 0.9, "consistency": 1.0}
    return DataObject(
        ENTERPRISE, "APTA", {"Code": "APTA", "EntName": "APT A"}, {"Code": fine, "EntName": dict(fine)},
        (
            _holder("M. Mecella", "Via dei Gracchi 71, Roma", "MCLMSM73H17H501F", Level.LOW),
            _holder("M. Scannapieco", "Via Mazzini 27, Pagani (SA)", "SCNMNC74S70G230T", Level.MEDIUM),
        ),
    )  # fmt: skip


def _holder(name: str, address: str, fiscal_code: str, accuracy: Level) -> DataObject:
    values = {"Name": name, "Address": address, "FiscalCode": fiscal_code}
    return DataObject(HOLDER, fiscal_code, values, {"Name": {"accuracy": accuracy.middle, "currency": 0.7}})
