"""Cost models: pure functions of what was spent."""
