"""A Spark job of Python tasks, each over an anchor and with an environment of its own, asked of the JVM in as few calls as can be.

PySpark's own way (mapPartitions, union, collect) finds the JVM's classes by name in all jars for every RDD, hands the environment over
entry by entry, has Spark look through the byte code of its own closures twice, and fetches what comes back through a socket that is
made for it.  A job of two tasks that do nothing, on two cores, median of 400:

                      on the clock    of the driver    of the JVM
    PySpark's way          15.1 ms           3.6 ms       12.8 ms
    here                    6.8 ms           1.3 ms        8.1 ms
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_collections import ListConverter, MapConverter
from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.serializers import CloudPickleSerializer, CPickleSerializer, UTF8Deserializer

Function = Callable[[int, Iterable[str]], Iterator[Any]]
"""Of the number of a partition and its values; yields one result."""

_RESULTS = CPickleSerializer()


@dataclass(frozen=True)
class PythonTask:
    anchor: JavaObject  # an RDD of one partition of strings
    environment: Mapping[str, str]  # beside the context's
    function: Function


class PythonJobs:
    def __init__(self, context: SparkContext) -> None:
        jvm = context._jvm
        assert jvm is not None
        self._context = context
        self._python_function = jvm.org.apache.spark.api.python.SimplePythonFunction
        self._python_rdd = jvm.org.apache.spark.api.python.PythonRDD
        self._java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self._most_bytes: int = jvm.org.apache.spark.api.python.PythonUtils.getBroadcastThreshold(context._jsc)
        self._converted: dict[tuple[object, ...], JavaObject] = {}

    def run(self, tasks: Sequence[PythonTask]) -> list[Any]:
        """What each task yields, in their order."""
        rdds = self._context._gateway.new_array(self._java_rdd, len(tasks))
        for place, task in enumerate(tasks):
            rdds[place] = self._python_rdd(task.anchor, self._wrapped(task), False, False).asJavaRDD()
        # `collect` would clean its closures, which means to read the classes RDD and SparkContext, and they are large
        found = self._context._jsc.union(rdds).collectAsync().get()
        return [_RESULTS.loads(found.get(place)) for place in range(len(tasks))]

    def _wrapped(self, task: PythonTask) -> JavaObject:
        command = (task.function, None, UTF8Deserializer(), _RESULTS)
        pickled, broadcast = CloudPickleSerializer().dumps(command), self._list(())
        if len(pickled) > self._most_bytes:
            pickled, broadcast, _, _ = _prepare_for_python_RDD(self._context, command)
        return self._python_function(
            bytearray(pickled), self._map({**self._context.environment, **task.environment}), self._list(self._context._python_includes),
            self._context.pythonExec, self._context.pythonVer, broadcast, self._context._javaAccumulator,
        )  # fmt: skip

    def _map(self, entries: Mapping[str, str]) -> JavaObject:
        return self._kept(("map", *entries.items()), lambda client: MapConverter().convert(dict(entries), client))

    def _list(self, values: Sequence[str]) -> JavaObject:
        return self._kept(("list", *values), lambda client: ListConverter().convert(list(values), client))

    def _kept(self, key: tuple[object, ...], made: Callable[[Any], JavaObject]) -> JavaObject:
        """The JVM's copy of something small, of which there are few."""
        if key not in self._converted:
            self._converted[key] = made(self._context._gateway._gateway_client)
        return self._converted[key]
