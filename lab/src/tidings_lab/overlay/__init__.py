"""Overlays of published systems."""
