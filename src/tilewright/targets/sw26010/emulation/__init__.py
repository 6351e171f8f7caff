"""C sources of the emulation: headers that stand in for the SW26010 tool chain's, and the runtime
behind them.
"""
