"""The wide world: one seed draws sizes, limits, clocks, disks, clients and faults of a run."""
