"""Schedules and their spaces: how a nest is split, ordered, laid out, staged and vectorised (swATOP
4.3).
"""
