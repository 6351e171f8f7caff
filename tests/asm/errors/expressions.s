	.data
	.byte 300, -129
	.half 1 / 0
	.long 7 % (3 - 3)
	.long 1 << 64
	.quad 1 << 63 << 1
	.long -table
table:	.long table * 2
	.long table - other
	.extern other
	.long hi(table)
	.set a, b + 1
	.set b, a + 1
	.long a
	.float 1e40
	.double table
	.float "x"
	.set table, 4
