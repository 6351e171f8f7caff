"""Choices of a network's plan: how operators fuse, lie in memory, and are divided over groups."""
