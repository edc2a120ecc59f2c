"""Runs stages: their operations become requests and judgements, every token is booked, every limit held.

``loop`` is the driver. What it does for one kind of operation, or at one moment of a step, has a module of
its own beside it.
"""
