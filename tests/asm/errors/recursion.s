	.macro again x
	again \x
	.endm
	again $1
