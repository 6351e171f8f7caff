"""How many examples the property tests draw: `quick` in every run, `fuzz` with `make fuzz`."""

from hypothesis import HealthCheck, settings

# A fresh temporary folder per example is not needed: each example writes its own file over.
FIXTURES = [HealthCheck.function_scoped_fixture]

settings.register_profile("quick", max_examples=100, deadline=None, suppress_health_check=FIXTURES)
settings.register_profile("fuzz", settings.get_profile("quick"), max_examples=5000)
settings.load_profile("quick")
