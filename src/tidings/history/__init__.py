"""Histories: what happened in a run, written down and judged."""
