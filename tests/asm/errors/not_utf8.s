	nop
	.ascii "café"
