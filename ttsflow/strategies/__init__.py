"""Stages, watches and conditions: what strategies are composed of."""
