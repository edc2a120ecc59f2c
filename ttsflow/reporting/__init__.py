"""``ttsflow report``: what runs came to, as one page that needs nothing else."""
