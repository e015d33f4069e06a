"""Diffusion trees of the Quality Notification Service as a routing strategy."""
