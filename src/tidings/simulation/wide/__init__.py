"""The wide world: runs whose sizes, limits, clocks, disks, clients and faults are drawn from one seed."""
