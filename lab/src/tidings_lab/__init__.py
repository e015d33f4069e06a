"""The laboratory: published systems, rival strategies, comparison matchers, gossip in rounds, formulas,
studies.

Everything here uses only the documented extension interface of `tidings`.
"""
