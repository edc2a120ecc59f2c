"""Runs code that nobody has read, in processes that can do no harm.

``runs`` is the side of ttsflow. The other modules are loaded by a bare interpreter, without the rest of
ttsflow: ``child`` has the three processes of a run, ``jail`` and ``syscalls`` take rights away, ``values`` is
what they say to each other.
"""
