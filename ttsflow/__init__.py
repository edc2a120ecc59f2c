"""Test-time scaling of language models as declarative pipelines."""
