// SPDX-License-Identifier: GPL-2.0-only
/* The first and only process of a virtual machine inside the lab's machine: says what the processor says of itself. */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/reboot.h>
#include <termios.h>
#include <unistd.h>

int main(void)
{
	unsigned int leaf, words[3];
	char name[sizeof(words) + 1] = "";

	__cpuid(0x40000000, leaf, words[0], words[1], words[2]);
	memcpy(name, words, sizeof(words));
	/* The kernel writes to the same serial line and may cut this line in two. 6: it stays silent; 7: it may speak again. */
	klogctl(6, NULL, 0);
	printf("inner machine: %ld CPUs of %s\n", sysconf(_SC_NPROCESSORS_ONLN), name);
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	klogctl(7, NULL, 0);
	reboot(RB_POWER_OFF);
	return 1;
}
