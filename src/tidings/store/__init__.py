"""The log on disk (RocksDB) and in memory, behind one interface. Used by the drivers only."""
