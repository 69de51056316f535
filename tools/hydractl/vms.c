// SPDX-License-Identifier: GPL-2.0-only
#include "vms.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"

/* Has the process a file? */
static bool has_file(pid_t pid, const char *name)
{
	autofree char *path = process_path(pid, name);

	return !access(path, F_OK);
}

char *vms_failure(pid_t pid, const char *doing)
{
	int saved = errno;

	if (saved == ENOENT && has_file(pid, "hydra_vm"))
		return xasprintf("process %d has no virtual machine", pid);
	if (saved == ENOENT && has_file(pid, "hydra"))
		return must_have(strdup("the kernel has no Hydra for virtual machines (CONFIG_KVM_HYDRA)"));
	errno = saved;
	return process_failure(pid, doing);
}

static void add_line(struct vm_lines *vm, char *text)
{
	char *space = strchr(text, ' ');

	if (space)
		*space = '\0';
	vm->line = must_have(realloc(vm->line, (vm->count + 1) * sizeof(*vm->line)));
	vm->line[vm->count].key = text;
	vm->line[vm->count++].rest = space ? space + 1 : "";
}

void vms_read(struct vms *vms, pid_t pid, const char *file)
{
	char *save, *line;

	*vms = (struct vms){ .text = process_file(pid, file) };
	if (!vms->text) {
		/* A process without one has an empty file. */
		if (errno == ENODATA)
			errno = ENOENT;
		error(EXIT_ERROR, 0, "%s", vms_failure(pid, "read"));
		return;
	}
	for (line = strtok_r(vms->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "vm ", strlen("vm "))) {
			vms->vm = must_have(realloc(vms->vm, (vms->count + 1) * sizeof(*vms->vm)));
			vms->vm[vms->count++] = (struct vm_lines){ 0 };
		} else if (!vms->count) {
			process_unexpected(pid, file, "a line before the first vm");
		} else {
			add_line(&vms->vm[vms->count - 1], line);
		}
	}
}

void vms_free(struct vms *vms)
{
	for (size_t i = 0; i < vms->count; i++)
		free(vms->vm[i].line);
	free(vms->vm);
	free(vms->text);
}
