	nop
	.if 1
	.rept 3
	nop
	br nowhere
