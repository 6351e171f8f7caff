# Inner loop of a 4 x 4 register-blocked product, written with macros: C += A * B over k steps.
	.set LANES, 4
	.set STEP, LANES * 8            // bytes of one vector
	.macro row a, first
	vmad \a, $7, \first, \first
	vmad \a, $8, $1\@, $1\@
	.endm
	.text
	.globl kernel
	.type kernel, @function
kernel:
	ldi $5, lo(tile)($31)
	ldi $6, STEP*2($5)
	ldi $28, 16($31)
1:	vldd $1, 0($5)
	lddec $7, 0($6)
	getr $2
	getc $8
	row $1, $11
	row $2, first=$12
	addl $5, STEP, $5
	addl $6, 8, $6
	subw $28, 1, $28
	bgt $28, 1b
	vstd $11, 0($5)
	ret
	.size kernel, . - kernel
	.data
	.balign 32
tile:	.double 1.0, -2.5e-3, 0.5
	.quad kernel, kernel + 4
