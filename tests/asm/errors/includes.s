	.include "../programs/mesh.s"
	.include "missing.s"
	.include name
	.include "latin1.bin"
	.include "/etc/passwd"
