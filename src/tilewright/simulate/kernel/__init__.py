"""Programs on cores, engines and memory spaces: outputs, cycles and the cause of every wait."""
