"""Millstream: continuous queries in CQL on Spark, exact at every instant."""
