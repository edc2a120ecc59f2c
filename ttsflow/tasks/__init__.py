"""Tasks: problems, and what an answer to one is."""
