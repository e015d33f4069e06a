"""Virgillito (2003), Figures 5.5 and 5.6: merge subscriptions and the diffusion tree, with real
organisations.

Three organisations without network: what one has to send is carried to the other by hand, and counted.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tidings.model.event import Event
from tidings_quality.interface import UserRequest
from tidings_quality.model import change_of
from tidings_quality.organisation import OrganisationService, QualityNotification, SubChanged
from tidings_quality.routing.trees import Branch
from tidings_quality.running_example import running_example
from tidings_quality.settings import OrganisationSettings, PeerOrganisation
from tidings_quality.state import OrganisationState, unpacked
from tidings_quality.subscription import QualitySubscription

from ..papers._quality import S1, S2, S3, S4, e1, e2

NAMES = ("INPS", "INAIL", "CoC")


class Cooperation:
    """Organisations, and a carrier that counts what goes between them."""

    def __init__(self) -> None:
        self.carried: Counter[tuple[str, str, str]] = Counter()  # what, from, to
        self.organisations = {name: self._organisation(name) for name in NAMES}

    def _organisation(self, name: str) -> OrganisationService:
        peers = {other: PeerOrganisation("http://127.0.0.1:1") for other in NAMES if other != name}
        settings = OrganisationSettings(name=name, schema=running_example(), peers=peers)
        return OrganisationService(settings.check(), OrganisationState())

    def subscribe(self, name: str, user: str, wanted: QualitySubscription) -> None:
        self.organisations[name].subscribe(UserRequest(wanted.text, user, "s"))
        self._carry_subscriptions(name)

    def unsubscribe(self, name: str, user: str) -> None:
        self.organisations[name].unsubscribe(f"{user}.s")
        self._carry_subscriptions(name)

    def _carry_subscriptions(self, name: str) -> None:
        consumer = self.organisations[name]
        for producer in consumer.settings.peers:
            change = consumer.to_tell(producer)
            if change is not None:
                assert self.organisations[producer].sub_changed(name, change) == SubChanged()
                consumer.on_confirmed(producer, change)
                self.carried["changeSub", name, producer] += 1

    def publish(self, event: Event) -> None:
        assert self.organisations[event.source].changed([change_of(event)]) == 1
        self._carry_events()

    def _carry_events(self) -> None:
        moving = True
        while moving:
            moving = False
            for name, sender in self.organisations.items():
                for target in self.organisations:
                    for one in sender.state.sendings(target):
                        self.organisations[target].notified(
                            name, [QualityNotification(unpacked(one.event), one.below)]
                        )
                        sender.state.sent([one.place])
                        self.carried["notify", name, target] += 1
                        moving = True

    def received(self, name: str) -> dict[str, int]:
        """How many notifications wait for each local user."""
        organisation = self.organisations[name]
        return {
            one.user: len(organisation.state.notifications(one.id)) for one in organisation.subscriptions()
        }


@pytest.fixture
def figure() -> Cooperation:
    """The users of Figure 5.5."""
    made = Cooperation()
    for user, wanted in (("U11", S1), ("U12", S2), ("U13", S3)):
        made.subscribe("INPS", user, wanted)
    for user, wanted in (("U21", S3), ("U22", S4)):
        made.subscribe("INAIL", user, wanted)
    return made


def test_vir5_7_the_external_merge_table_of_coc(figure: Cooperation) -> None:
    table = figure.organisations["CoC"].tables()["external merges"]
    assert table == {"INPS": [S1.text], "INAIL": [S3.text]}


def test_vir5_7_e1_goes_to_both_and_e2_to_inps_alone(figure: Cooperation) -> None:
    figure.carried.clear()
    figure.publish(e1())
    assert figure.carried == {("notify", "CoC", "INPS"): 1, ("notify", "CoC", "INAIL"): 1}
    assert figure.received("INPS") == {"U11": 1, "U12": 1, "U13": 1}
    assert figure.received("INAIL") == {"U21": 1, "U22": 0}  # S4 hears of INPS and INAIL only
    figure.carried.clear()
    figure.publish(e2())
    assert figure.carried == {("notify", "CoC", "INPS"): 1}
    assert figure.received("INPS") == {
        "U11": 2,
        "U12": 2,
        "U13": 1,
    }  # the text forgets U12: medium is <= medium
    assert figure.received("INAIL") == {"U21": 1, "U22": 0}


def test_vir5_7_another_user_with_s2_at_inps_sends_nothing(figure: Cooperation) -> None:
    figure.carried.clear()
    figure.subscribe("INPS", "U14", S2)
    assert not figure.carried


def test_vir5_7_when_the_wide_one_ends_the_next_comes_out(figure: Cooperation) -> None:
    figure.unsubscribe("INPS", "U11")
    assert figure.organisations["CoC"].tables()["external merges"]["INPS"] == [S2.text]
    figure.publish(e2())
    assert figure.received("INPS") == {"U12": 1, "U13": 0}


def test_vir5_7_sources_are_told_to_no_other_producer() -> None:
    made = Cooperation()
    made.subscribe("CoC", "U", S4)
    assert made.carried == {("changeSub", "CoC", "INPS"): 1, ("changeSub", "CoC", "INAIL"): 1}
    made.carried.clear()
    made.subscribe("INPS", "U", S4)
    assert made.carried == {("changeSub", "INPS", "INAIL"): 1}


def test_vir5_7_an_event_that_comes_twice_is_heard_once(figure: Cooperation) -> None:
    figure.publish(e1())
    again = [QualityNotification(e1(), (Branch("INAIL"),))]
    assert figure.organisations["INPS"].notified("CoC", again) == 0
    figure._carry_events()
    assert figure.received("INPS") == {"U11": 1, "U12": 1, "U13": 1}
    assert figure.received("INAIL") == {"U21": 1, "U22": 0}


def test_vir5_8_a_producer_with_room_for_one_sends_through_the_first(figure: Cooperation) -> None:
    """Figure 5.6: each call carries the part of the tree that the receiver has to serve."""
    coc = figure.organisations["CoC"]
    assert coc.tree(e1()) == (Branch("INAIL"), Branch("INPS"))
    slow = [
        one if one.name != "CoC" else type(one)(one.name, one.holds, 1)
        for one in coc.settings.schema.organisations
    ]
    schema = type(coc.settings.schema)(coc.settings.schema.classes, tuple(slow))
    narrow = OrganisationService(
        OrganisationSettings(name="CoC", schema=schema, peers=coc.settings.peers), coc.state
    )
    assert narrow.tree(e1()) == (Branch("INAIL", (Branch("INPS"),)),)
    figure.organisations["CoC"] = narrow
    figure.carried.clear()
    figure.publish(e1())
    assert figure.carried == {("notify", "CoC", "INAIL"): 1, ("notify", "INAIL", "INPS"): 1}
    assert figure.received("INPS") == {"U11": 1, "U12": 1, "U13": 1}
