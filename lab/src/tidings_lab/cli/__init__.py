"""Commands that the laboratory adds to `tidings`."""
