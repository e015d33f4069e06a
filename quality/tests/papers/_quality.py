"""The subscriptions of Table 5.1 and the two events of Virgillito (2003), sections 5.3.1 and 5.4.2."""

from __future__ import annotations

from tidings.model.event import Event
from tidings_quality.model import QualityChange, quality_value
from tidings_quality.running_example import HOLDER
from tidings_quality.subscription import parse_subscription

MECELLA = "FiscalCode = 'MCLMSM73H17H501F'"
S1 = parse_subscription("ON Enterprise/Holder")
S2 = parse_subscription("ON Enterprise/Holder WHERE Name.Accuracy <= medium")
S3 = parse_subscription(f"ON Enterprise/Holder WHERE {MECELLA} AND Name.Accuracy <= medium")
S4 = parse_subscription(f"ON Enterprise/Holder FROM INPS, INAIL WHERE {MECELLA} AND Name.Accuracy <= medium")
TABLE = (S1, S2, S3, S4)


def e1(source: str = "CoC") -> Event:
    values = {"Name": "M. Mecella", "Address": "Via dei Gracchi 71, Roma", "FiscalCode": "MCLMSM73H17H501F"}
    change = QualityChange(
        HOLDER, source, values["FiscalCode"], "Name", "accuracy", quality_value("low"), "1", values
    )
    return change.as_event()


def e2(source: str = "CoC") -> Event:
    values = {
        "Name": "M. Scannapieco", "Address": "Via Mazzini 27, Pagani (SA)", "FiscalCode": "SCNMNC74S70G230T",
    }  # fmt: skip
    change = QualityChange(
        HOLDER, source, values["FiscalCode"], "Name", "accuracy", quality_value("medium"), "1", values
    )
    return change.as_event()
