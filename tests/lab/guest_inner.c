// SPDX-License-Identifier: GPL-2.0-only
/* The first and only process of a virtual machine inside the lab's machine: says what the processor says of itself. */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

int main(void)
{
	unsigned int leaf, words[3];
	char name[sizeof(words) + 1] = "";

	__cpuid(0x40000000, leaf, words[0], words[1], words[2]);
	memcpy(name, words, sizeof(words));
	printf("inner machine: %ld CPUs of %s\n", sysconf(_SC_NPROCESSORS_ONLN), name);
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
