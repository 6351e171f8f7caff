"""Emulation of generated code on this computer: stand-ins for the headers of the SW26010 tool
chain, the runtime behind them, and the code that builds and starts both.
"""
