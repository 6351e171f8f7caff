	.rept 70000
	nop
	.endr
