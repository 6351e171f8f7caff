"""Contests of products, convolutions and networks on this computer: contenders and their timing."""
