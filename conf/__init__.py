"""The shipped config groups."""
