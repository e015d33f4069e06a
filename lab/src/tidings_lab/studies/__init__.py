"""Studies: reproducible experiments, each answering claims of the papers. One file per study."""
