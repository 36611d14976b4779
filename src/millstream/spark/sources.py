"""The ways in from outside: each batch of a source is committed to the log once.

    files that pyarrow reads (parquet, arrow, csv)   a thread lists them (runtime/file_source.py); executors read them by path
    everything else (rate, socket, kafka, json, ...)  Structured Streaming reads the rows; executors receive them as Arrow

Both end in `write_partition` on the executors and one commit on the driver that carries (source, batch id):
a batch that is handed out again after a crash is found done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from millstream.core.errors import AlreadyExists, DataDamaged, MillstreamError, SourceFailed, did_you_mean
from millstream.language.catalog import StreamEntry
from millstream.runtime.file_listing import FileListing
from millstream.runtime.file_source import FileSource
from millstream.runtime.ingest import IngestPlan, PartitionReport
from millstream.runtime.streams import Streams
from millstream.spark.declared_columns import CORRUPT, declared_columns, keeps_corrupt, spark_schema
from millstream.spark.file_readers import FileReader, fast_file_reader
from millstream.spark.jobs import Jobs
from millstream.spark.lost_files import read_around
from millstream.spark.once import spark_reason
from millstream.spark.python_job import PythonJobs, PythonTask
from millstream.spark.reports import REPORT_SCHEMA, decode_reports
from millstream.spark.session import errors_told_by_us
from millstream.spark.source_tasks import FileOpener, FileWriter, RowWriter
from millstream.state.file_journal import FileJournal
from millstream.state.location import Location
from millstream.state.sealed import RESTORE
from millstream.state.spark_checkpoint import check_checkpoint

log = logging.getLogger(__name__)

_TRANSACTION = "source"
"""Under this name the log knows the batches of a stream's source."""
_FILE_FORMATS = {"parquet", "json", "csv", "orc", "text", "arrow", "avro", "xml"}
_FORMATS = ("parquet", "csv", "json", "orc", "text", "xml", "arrow", "rate", "socket", "kafka")
_NO_SPACE = "No space left on device"
_FORMAT_NOT_FOUND = ("DATA_SOURCE_NOT_FOUND", "KAFKA_DATA_SOURCE_NOT_ENABLED", "Failed to find data source")


class _Running(Protocol):
    @property
    def is_active(self) -> bool: ...

    @property
    def failure(self) -> MillstreamError | None: ...

    def drain(self) -> None: ...

    def stop(self) -> None: ...


class Sources:
    """The running sources of a database."""

    def __init__(self, spark: SparkSession, streams: Streams, location: Location, arrived: Callable[[], None]) -> None:
        self._spark = spark
        self._jobs = Jobs(spark.sparkContext)
        self._python = PythonJobs(spark.sparkContext)
        self._anywhere = spark.sparkContext._jsc.parallelize([""], 1).rdd()
        """What tasks are made over that any executor may have."""
        self._streams = streams
        self._location = location
        self._arrived = arrived
        self._running: dict[str, _Running] = {}
        self._failures: dict[str, MillstreamError] = {}
        self._held: dict[str, StreamEntry] | None = None

    def start(self, entry: StreamEntry) -> None:
        """Begin, or go on, reading the source that the stream was declared with."""
        assert entry.format is not None
        if self._held is not None:
            self._held[entry.name] = entry
            return
        self._failures.pop(entry.name, None)
        reader = fast_file_reader(entry)
        if reader is None:
            is_file = str(entry.format).lower() in _FILE_FORMATS
            self._stream_rows(entry, _loaded(lambda: declared_columns(self._reader(entry), entry, is_file=is_file), entry))
            return
        listing = FileListing.of(entry.name, entry.options)
        journal = FileJournal(
            self._location.checkpoint_dir(entry.name), listing.max_age_us, self._streams[entry.name].log.last_batch(_TRANSACTION)
        )
        self._running[entry.name] = FileSource(
            entry.name,
            listing,
            journal,
            lambda number, paths, following: self._ingest(
                entry.name, number, lambda plan: self._read_files(paths, plan, reader, following)
            ),
        )

    def attach(self, entry: StreamEntry, frame: DataFrame) -> None:
        """A streaming DataFrame of the user's own as the stream's source.

        A stream has one source: batches of a second one would bear the numbers of the first one's, and be found done.
        """
        running = self._running.get(entry.name)
        if entry.format is not None or (running is not None and running.is_active):
            raise AlreadyExists(
                f'stream "{entry.name}" has a source already',
                hint="Give the DataFrame a stream of its own and let a query read both; rows of insert are taken beside a source.",
            )
        if not frame.isStreaming:
            raise SourceFailed(
                f'the DataFrame for "{entry.name}" is not a streaming one', hint="Use spark.readStream, or db.insert for a finished table."
            )
        self._stream_rows(entry, _loaded(lambda: declared_columns(frame, entry), entry))

    def note_failure(self, name: str, error: MillstreamError) -> None:
        """The source could not even be started."""
        self._failures[name] = error

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is started inside begins to read at the end."""
        waiting = self._held = {}
        try:
            yield
        finally:
            self._held = None
        for entry in waiting.values():
            self.start(entry)

    def stop(self, name: str) -> None:
        if self._held is not None:
            self._held.pop(name, None)
        self._failures.pop(name, None)
        source = self._running.pop(name, None)
        if source is not None:
            source.stop()

    def stop_all(self) -> None:
        self._jobs.close()
        for name in list(self._running):
            self.stop(name)

    def drain(self, name: str) -> None:
        """Returns when everything that the source holds now has been committed to the log."""
        source = self._running.get(name)
        if source is None:
            if name in self._failures:
                raise self._failures[name]
            return
        try:
            source.drain()
        except MillstreamError as error:
            raise self.failure(name) or error from error

    def failure(self, name: str) -> MillstreamError | None:
        """Why the source has stopped, if it has."""
        source = self._running.get(name)
        return self._failures.get(name) or (source.failure if source is not None else None)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all streams that have a source, one that could not be started too."""
        return tuple({**self._running, **self._failures})

    # --- a batch

    def _stream_rows(self, entry: StreamEntry, frame: DataFrame) -> None:
        name = entry.name

        def each(batch: DataFrame, number: int) -> None:
            try:
                self._ingest(name, number, lambda plan: self._write_rows(batch, plan, entry.format or "DataFrame"))
            except Exception as error:
                # noted here: on its way through the JVM it becomes a page of text
                self._failures[name] = _source_failed(name, error)
                raise

        # a batch that fails is told by us; one that a stop interrupts is none of the user's business
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
        checkpoint = self._location.checkpoint_dir(name)
        check_checkpoint(checkpoint, self._streams[name].log.last_batch(_TRANSACTION))
        self._failures.pop(name, None)
        writer = frame.writeStream.foreachBatch(each).queryName(f"millstream:{name}").option("checkpointLocation", str(checkpoint))
        self._running[name] = _StreamedRows(name, checkpoint, _started(writer, name, checkpoint))
        log.info("source started", extra={"stream": name})

    def _ingest(self, name: str, number: int, write: Callable[[IngestPlan], list[PartitionReport]]) -> None:
        stream = self._streams[name]
        with stream.lock:
            if stream.log.is_committed(_TRANSACTION, number):
                return
            plan = self._streams.begin(name, partitions=1024)
            reports = write(plan)
            if reports:
                self._streams.commit(plan, reports, batch=(_TRANSACTION, number))
        self._arrived()

    def _write_rows(self, batch: DataFrame, plan: IngestPlan, source: str) -> list[PartitionReport]:
        narrow = batch.coalesce(max(1, self._spark.sparkContext.defaultParallelism))
        reports = self._jobs.run(narrow.mapInArrow(RowWriter(plan, source), REPORT_SCHEMA).collect)
        return decode_reports(row.report for row in reports)

    def _read_files(self, paths: Sequence[str], plan: IngestPlan, reader: FileReader, following: int) -> list[PartitionReport]:
        """`following` are the files of the next batch, if there is one."""
        if not paths:
            return []
        context, notes, fatal = self._spark.sparkContext, self._location.reading_dir(plan.stream), set[str]()
        at_once = max(1, context.defaultParallelism)
        numbered, tasks = list(enumerate(paths)), min(len(paths), at_once)
        cuts = [len(paths) * place // tasks for place in range(tasks + 1)]
        shares = [numbered[start:end] for start, end in pairwise(cuts)]
        whole = replace(plan, partitions=len(paths))

        def run(left_out: frozenset[str]) -> list[str]:
            writers = [FileWriter(whole, reader, notes, left_out, share, more=following >= at_once) for share in shares]
            written = self._python.run([PythonTask(self._anywhere, {}, writer) for writer in writers])
            return [report for of_task in written for report in of_task]

        def survives(path: str) -> bool:
            return self._jobs.is_survived(context.parallelize([path], 1).map(FileOpener(plan, reader)).count)

        try:
            return decode_reports(self._jobs.run(lambda: read_around(run, survives, notes, fatal)))
        except Exception as error:
            raise _source_failed(plan.stream, error) from error

    # --- what to read

    def _reader(self, entry: StreamEntry) -> DataFrame:
        reader = self._spark.readStream.format(str(entry.format))
        if str(entry.format).lower() in _FILE_FORMATS:
            reader = reader.schema(spark_schema(entry.schema, corrupt=keeps_corrupt(entry)))
        if keeps_corrupt(entry):
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        for key, value in entry.options.items():
            if key.lower() != "value.format":
                reader = reader.option(key, str(value))
        return reader.load()


class _StreamedRows:
    """A streaming query of Spark as a running source."""

    def __init__(self, name: str, checkpoint: Path, query: StreamingQuery) -> None:
        self._name = name
        self._checkpoint = checkpoint
        self._query = query

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    @property
    def failure(self) -> MillstreamError | None:
        try:
            error = self._query.exception() if not self._query.isActive else None
        except Exception as unanswered:  # Spark itself is gone
            return _source_failed(self._name, unanswered)
        return _query_failed(self._name, self._checkpoint, error) if error is not None else None

    def drain(self) -> None:
        try:
            self._query.processAllAvailable()
        except Exception as error:
            raise _query_failed(self._name, self._checkpoint, error) from error

    def stop(self) -> None:
        self._query.stop()


def _loaded(load: Callable[[], DataFrame], entry: StreamEntry) -> DataFrame:
    try:
        with errors_told_by_us():
            return load()
    except SourceFailed:
        raise
    except Exception as error:
        raise _not_started(entry, error) from error


def _not_started(entry: StreamEntry, error: Exception) -> MillstreamError:
    """Not a row was read: what to correct is in the statement."""
    if any(text in str(error) for text in _FORMAT_NOT_FOUND):
        known = f"Spark has {', '.join(_FORMATS[:-1])}; others, kafka too, come with a package: see spark.jars.packages."
        is_known = str(entry.format).lower() in _FORMATS
        hint = known if is_known else did_you_mean(str(entry.format), _FORMATS) or known
        return SourceFailed(f'the source of stream "{entry.name}" has the format "{entry.format}", which Spark does not find', hint=hint)
    reason = spark_reason(error).rstrip(".")
    kind = f', "{entry.format}",' if entry.format else ""  # a DataFrame of the user's own has none
    return SourceFailed(
        f'the source of stream "{entry.name}"{kind} does not start: {reason}', hint="Correct the stream's columns or its source's options."
    )


def _started(writer: DataStreamWriter, name: str, checkpoint: Path) -> StreamingQuery:
    try:
        with errors_told_by_us():
            return writer.start()
    except Exception as error:
        raise _query_failed(name, checkpoint, error) from error


def _query_failed(name: str, checkpoint: Path, error: BaseException) -> MillstreamError:
    """What Spark says of its own files is about damage; that nothing more can be written is not."""
    reason = spark_reason(error)
    if str(checkpoint) in reason and _NO_SPACE not in reason:
        return DataDamaged(f'the directory "{checkpoint}" is damaged: {reason.rstrip(".")}', hint=RESTORE)
    return _source_failed(name, error)


def _source_failed(name: str, error: BaseException) -> MillstreamError:
    if isinstance(error, MillstreamError):  # it says all that itself
        return error
    return SourceFailed(
        f'the source of stream "{name}" failed: {spark_reason(error)}',
        hint="The rows read so far are in the log; fix the source and start again.",
    )
