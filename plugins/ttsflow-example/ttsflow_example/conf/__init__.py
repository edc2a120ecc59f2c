"""The config groups of this plugin."""
