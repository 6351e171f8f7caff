"""IR to IR: infer transfers, handle boundaries, overlap transfers with compute, place buffers
(swATOP 4.5, 4.7).
"""
