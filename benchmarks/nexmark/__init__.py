"""Nexmark: an auction house as three streams, and the questions that stream processors are compared by."""
