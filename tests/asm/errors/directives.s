	.lnog 4
	.align 20
	.balign 3
	.space -1
	.space later
	.data
	nop
	.bss
	.long 1
	.section .text, "aw"
	.section x, "q"
	.globl nowhere
	.type table
	.size table, -1
	.loc 3 1
	.equiv one, 1
	.equiv one, 2
	.error "stop here"
later:
	.type later, @object, 4
