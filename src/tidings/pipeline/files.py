"""Files wherever Spark keeps them (a disk, HDFS, an object store), through Spark's own file systems."""

from __future__ import annotations

from typing import Any

from tidings.errors import StoreError


class Files:
    """The few operations that a sink and a checkpoint need."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def _open(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._conf), place

    def exists(self, path: str) -> bool:
        system, place = self._open(path)
        return bool(system.exists(place))

    def names(self, path: str) -> list[str]:
        """Entries of a folder, sorted; none when the folder is missing."""
        system, place = self._open(path)
        if not system.exists(place):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(place))

    def stamps(self, path: str) -> list[tuple[str, int, int]]:
        """(path, size, time of change) of every file below; none when the folder is missing."""
        system, place = self._open(path)
        if not system.exists(place):
            return []
        found, listed = [], system.listFiles(place, True)
        while listed.hasNext():
            status = listed.next()
            found.append((status.getPath().toString(), status.getLen(), status.getModificationTime()))
        return sorted(found)

    def read(self, path: str) -> bytes:
        system, place = self._open(path)
        stream = system.open(place)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        system, place = self._open(path)
        stream = system.create(place, True)
        stream.write(bytearray(content))
        stream.close()

    def rename(self, path: str, target: str) -> None:
        """Move a folder to a new path."""
        system, place = self._open(path)
        goal = self._jvm.org.apache.hadoop.fs.Path(target)
        system.mkdirs(goal.getParent())
        if not system.rename(place, goal):
            raise StoreError(
                f"{path} could not be moved to {target}", hint="is the file system full or read-only?"
            )

    def delete(self, path: str) -> None:
        system, place = self._open(path)
        system.delete(place, True)
