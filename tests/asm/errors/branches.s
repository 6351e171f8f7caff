	bne $1, lop
loop:	nop
loop:	nop
	br loop + 2
	br far
	bne $1, 1b
	bne $1, 1f
	bne $1, 1 << 20
	br $3
99999:	nop
	.space 1 << 23
far:	halt
