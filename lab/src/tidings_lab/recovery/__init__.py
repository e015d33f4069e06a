"""Recovery strategies of published systems."""
