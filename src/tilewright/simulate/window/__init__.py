"""Cores whose instructions work for hundreds of cycles on spans of memories, a window in flight."""
