"""The words of an event of a recording, the kinds of events, and those of arguments."""

GET, PUT, WAIT, CALL, SYNCHRONISE = range(5)
KIND, LINE, SUBJECT, MEMORY, SIZE, STRIDE, BLOCK, CORE = range(8)
INTEGER, NUMBER, PLACE, WORDS, LIST = range(5)
MOST_REPLIES = 256
