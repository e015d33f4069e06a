"""The log on disk (RocksDB) and in memory, behind one door. Used by the drivers only."""
