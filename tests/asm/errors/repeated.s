	.rept 30
	foo
	.endr
