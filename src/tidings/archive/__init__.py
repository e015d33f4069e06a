"""Events that live forever, as Parquet: written once, compacted, pruned by filters, read by any tool."""
