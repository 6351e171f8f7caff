"""Host files that launch programs on core groups beside others."""
