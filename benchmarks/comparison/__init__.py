"""Millstream beside the systems that people would pick instead: same data, same machine, answers compared, then timed."""
