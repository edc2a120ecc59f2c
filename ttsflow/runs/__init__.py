"""Folders of runs and of sweeps: written so that a kill loses little, read again so that a run goes on."""
