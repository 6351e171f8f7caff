# Every kind of data, in sections of its own.
	.file "data.s"
	.section .rodata
text:	.asciz "tile \"wright\"\n\x21\0"
	.ascii "no end", " # no comment"
	.align 3
numbers: .byte 1, -1, 'a', 0xff
	.half 1, 0x8000
	.word text, 0b101, end_of_numbers - numbers
	.quad -1, external + 16, ~0 >> 60
end_of_numbers:
	.float 1.5, -inf, 3
	.double nan, 1e300
	.section .table, "aw", @progbits
	.balign 64, 0xaa
slots:	.space 8, 0x55
	.zero 4
	.extern external
	.globl slots
	.local text
	.bss
buffer:	.space 4096
	.section .scratch, "aw", @nobits
	LENGTH = end_of_numbers - numbers
	.skip LENGTH
	.text
	.file 1 "kernel.c"
	.loc 1 42
	ldih $1, hi(external - 8)($31)
	ldi $1, lo(external - 8)($1)
	.word 0xffffffff
	halt
