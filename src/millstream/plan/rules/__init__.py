"""Rewrite rules, one file each: a rule takes a node and returns an equal, better one, or the node itself."""
