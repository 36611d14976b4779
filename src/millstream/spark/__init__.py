"""Where Millstream meets Spark: sessions, sources, and the jobs of a tick.  The only folder that imports pyspark."""
