"""Everything that Millstream keeps on disk, as plain Python over Arrow and Delta tables.  No Spark, no SQL, no operators.

Who writes what, and when it counts:

    executors   chunk.py, output_file.py, snapshot.py     immutable files under names of their own; nobody sees them yet
    driver      stream_log.py      one Delta commit names an ingest's chunks, its late rows and the frontier
                tick_record.py     one small file names a tick's outputs and snapshots
                changelog.py       follows the tick records, idempotently
                relation_log.py    one Delta commit per statement
                catalog_file.py    the statements that made it all
    location.py holds the lock: there is one driver.

Below them: delta_log.py (a commit), timed_table.py (a table of files on the line of time), merge_plan.py and compaction.py
(few files), retired_files.py (files that left), parquet_file.py (how files are written), atomic.py (all or nothing).
"""
