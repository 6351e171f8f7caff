"""Targets: an explicit program and a machine in, sources and the plan to build them out (swATOP
4.7).
"""
