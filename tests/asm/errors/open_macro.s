	nop
	.macro endless a
	nop
