"""The loop IR: one small language between a scheduled operator and its code.

A program is loops, conditions, transfers between main memory and scratchpads, waits, barriers and
calls of tensorised primitives (swATOP 4.4). It runs once per core of a mesh; `rid` and `cid` are
the core's row and column.
"""
