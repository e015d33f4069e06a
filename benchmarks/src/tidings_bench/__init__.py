"""Benchmarks: workloads that anyone can rebuild from a seed, and peers beside us in one run."""
