"""Queries in motion: the circuit of operators in a worker, and the driver's tick that feeds it.  No Spark here."""
