"""Comparisons of systems, and gossip in rounds over arrays for very large populations."""
