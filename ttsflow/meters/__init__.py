"""Energy meters: joules since a meter was opened, and whose they are."""
