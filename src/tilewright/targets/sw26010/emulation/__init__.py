"""Generated code run on this computer: headers that stand in for the SW26010 tool chain's, the
runtime behind them, and what builds and starts both.
"""
