"""The three pairs of generator and verifier that FastTTS is measured on (arXiv 2509.00195)."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PAIRS"]

#: Generator, verifier, memory share of each, as published.
PAIRS: Mapping[str, tuple[str, str, float, float]] = {
    "1.5B+7B": ("qwen2.5-math-1.5b", "math-shepherd-7b", 0.22, 0.68),
    "7B+1.5B": ("qwen2.5-math-7b", "skywork-prm-1.5b", 0.7, 0.2),
    "1.5B+1.5B": ("qwen2.5-math-1.5b", "skywork-prm-1.5b", 0.2, 0.2),
}
