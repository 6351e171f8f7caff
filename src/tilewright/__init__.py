"""tilewright: derive, check, generate and simulate tile schedules for many-core machines."""
