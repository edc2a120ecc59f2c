"""Verifiers: where scores come from."""
