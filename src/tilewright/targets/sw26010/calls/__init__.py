"""Calls of elementwise routines from C: the routine of a call, its arguments and its price."""
