"""Loggers: trackers of experiments that are told of a run while it goes on."""
