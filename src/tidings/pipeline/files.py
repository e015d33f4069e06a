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
        position = self._jvm.org.apache.hadoop.fs.Path(path)
        return position.getFileSystem(self._conf), position

    def exists(self, path: str) -> bool:
        system, position = self._open(path)
        return bool(system.exists(position))

    def names(self, path: str) -> list[str]:
        """Entries of a folder, sorted; none when the folder is missing."""
        system, position = self._open(path)
        if not system.exists(position):
            return []
        return sorted(status.getPath().getName() for status in system.listStatus(position))

    def stamps(self, path: str) -> list[tuple[str, int, int]]:
        """(path, size, time of change) of every file below; none when the folder is missing."""
        system, position = self._open(path)
        if not system.exists(position):
            return []
        found, listed = [], system.listFiles(position, True)
        while listed.hasNext():
            status = listed.next()
            found.append((status.getPath().toString(), status.getLen(), status.getModificationTime()))
        return sorted(found)

    def read(self, path: str) -> bytes:
        system, position = self._open(path)
        stream = system.open(position)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        system, position = self._open(path)
        stream = system.create(position, True)
        stream.write(bytearray(content))
        stream.close()

    def rename(self, path: str, target: str) -> None:
        """Move a folder to a new path."""
        system, position = self._open(path)
        goal = self._jvm.org.apache.hadoop.fs.Path(target)
        system.mkdirs(goal.getParent())
        if not system.rename(position, goal):
            raise StoreError(
                f"{path} could not be moved to {target}", hint="is the file system full or read-only?"
            )

    def delete(self, path: str) -> None:
        system, position = self._open(path)
        system.delete(position, True)
