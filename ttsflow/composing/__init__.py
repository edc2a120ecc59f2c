"""From files and overrides to parts: Hydra's loader and language, mounted strategies, replaced parts."""
