"""Incidents: how each fault of a plan that begins and ends acts on a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.extensions import blaming, load
from tidings.simulation import faults as fault
from tidings.simulation.faults import Incident
from tidings.simulation.parts import pair

if TYPE_CHECKING:
    from tidings.simulation.simulator import Simulation


def begin(simulation: Simulation, incident: Incident) -> None:
    simulation.plan_rough()
    kind, hosts = incident.kind, simulation.hosts
    took = [True]
    if kind in fault.own_faults():
        with blaming(fault.GROUP, kind):
            load(fault.GROUP, kind).begin(simulation, incident)
    elif kind in fault.RESTARTS:
        took = [simulation.crash(name) for name in incident.nodes]
    elif kind == fault.STOP:
        for name in incident.nodes:
            simulation.stop(name)
    elif kind == fault.CLOCK_SKEW:
        for name in incident.nodes:
            hosts[name].clock.jump(incident.amount)
    elif kind == fault.CLOCK_DRIFT:
        for name in incident.nodes:
            hosts[name].clock.run_at(1.0 + incident.amount, simulation.now)
    elif kind == fault.DISK_FULL:
        for name in incident.nodes:
            hosts[name].full += 1
    elif kind == fault.SYNC_FAILURE:
        for name in incident.nodes:
            hosts[name].sync_fails = hosts[name].up
        took = [hosts[name].up for name in incident.nodes]
    elif kind == fault.SLOW_LINK:
        for a, b in incident.cut:
            simulation.links[pair(a, b)].slowed.append(incident.amount)
    else:
        cut = [(a, b) for a, b in incident.cut if pair(a, b) in simulation.links]
        took = [bool(cut)]
        for a, b in cut:
            simulation.links[pair(a, b)].cut[(a, b)] += 1
    if any(took):
        simulation.fired[kind] += 1
    simulation.review_links(_hit(incident))


def end(simulation: Simulation, incident: Incident) -> None:
    kind, hosts = incident.kind, simulation.hosts
    if kind in fault.own_faults():
        with blaming(fault.GROUP, kind):
            load(fault.GROUP, kind).end(simulation, incident)
    elif kind in fault.RESTARTS:
        for name in incident.nodes:
            if not hosts[name].up:
                hosts[name].clock.set_wall(incident.amount)
            simulation.restart(name, keep_disk=kind != fault.DISK_LOSS)
    elif kind == fault.STOP:
        for name in incident.nodes:
            simulation.resume(name)
    elif kind == fault.CLOCK_DRIFT:
        for name in incident.nodes:
            hosts[name].clock.run_at(1.0, simulation.now)
    elif kind == fault.DISK_FULL:
        for name in incident.nodes:
            hosts[name].full -= 1
    elif kind == fault.SYNC_FAILURE:  # the process ended when its disk failed; it is started again
        for name in incident.nodes:
            simulation.crash(name)
            simulation.restart(name)
    elif kind == fault.SLOW_LINK:
        for a, b in incident.cut:
            simulation.links[pair(a, b)].slowed.remove(incident.amount)
    elif kind != fault.CLOCK_SKEW:  # a clock that jumped stays where it is
        for a, b in incident.cut:
            if pair(a, b) in simulation.links:
                simulation.links[pair(a, b)].cut[(a, b)] -= 1
    simulation.review_links(_hit(incident))


def _hit(incident: Incident) -> set[str]:
    return set(incident.nodes) | {name for edge in incident.cut for name in edge}
