"""A whole network as one program that launches all its stages."""
