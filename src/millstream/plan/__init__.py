"""What a query means (logical nodes), how it runs (physical nodes), and the rules between them.  All immutable data."""
