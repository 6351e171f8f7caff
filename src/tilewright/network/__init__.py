"""Whole networks on any machine."""
