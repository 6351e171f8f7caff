"""What time costs on this computer beyond the calls themselves: caches, streams, threads."""
