"""Incremental operators: each turns the changes of its input into the changes of its output, one file each."""
