"""Controllers: how much to sample across the problems of a run, at prices that are learnt on the way."""
