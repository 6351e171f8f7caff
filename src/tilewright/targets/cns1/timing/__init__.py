"""The closed-form timing model of ICSI TR-93-046: memory, messages, recall and training."""
