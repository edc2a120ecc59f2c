from hypothesis import settings

# A busy machine is no reason for a test to fail.
settings.register_profile("particles", deadline=None)
settings.load_profile("particles")
