"""What an estimate for this computer has beyond the calls: caches, streams, threads."""
