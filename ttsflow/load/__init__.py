"""How busy others keep what a run works on, a forecast of it, and a load made on purpose for experiments."""
