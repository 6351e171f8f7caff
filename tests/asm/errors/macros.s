	.macro pair a, b:req
	vmda \a, \b, \b
	.endm
	pair $1, $2
	pair $1
	pair $1, $2, $3
	pair $1, bb=$2
	.macro pair
	.endm
	.macro nop
	.endm
	.macro twice x, x
	.endm
	.macro bad 1x
	.endm
	.macro
	.endm
	.endm
	.endif
	.exitm
	.if 1
	.else
	.else
	.endif
	.rept -1
	.endr
	.irp
	.endr
