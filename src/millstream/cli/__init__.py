"""The `millstream` program: one file for each command, all of them over `millstream.api`."""
