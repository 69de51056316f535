// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra, hydra_tables, hydra_map and hydra_check: which processes may open
 * them. The functions that write their contents are in arch/x86/mm/hydra/.
 */

#include <linux/fs.h>
#include <linux/hydra_proc.h>
#include <linux/hydra_vm.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

/*
 * The address space of a process, or EPERM for a reader or writer without access.
 */
static struct mm_struct *hydra_task_mm(struct inode *inode, unsigned int mode)
{
	struct task_struct *task = get_proc_task(inode);
	struct mm_struct *mm;

	if (!task)
		return ERR_PTR(-ESRCH);
	mm = mm_access(task, mode);
	put_task_struct(task);
	if (!mm)
		return ERR_PTR(-ESRCH);
	return mm == ERR_PTR(-EACCES) ? ERR_PTR(-EPERM) : mm;
}

static int hydra_proc_show_with(struct seq_file *m, unsigned int mode,
				int (*show)(struct mm_struct *, struct seq_file *))
{
	struct mm_struct *mm = hydra_task_mm(m->private, mode);
	int ret;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	ret = show(mm, m);
	mmput(mm);
	return ret;
}

static int hydra_proc_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_READ_FSCREDS, hydra_show_settings);
}

/*
 * Check at open, too: otherwise an unprivileged process could open the file and
 * pass it as stdout to a privileged program that writes to it.
 */
static int hydra_may_attach(struct inode *inode)
{
	struct mm_struct *mm = hydra_task_mm(inode, PTRACE_MODE_ATTACH_FSCREDS);

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	mmput(mm);
	return 0;
}

static int hydra_proc_open(struct inode *inode, struct file *file)
{
	int ret = 0;

	if (file->f_mode & FMODE_WRITE)
		ret = hydra_may_attach(inode);
	return ret ?: single_open(file, hydra_proc_show, inode);
}

/* Is the text no setting, but asks to count, or not to? */
static bool hydra_is_count(const char *text, bool *on)
{
	*on = sysfs_streq(text, "count=on");
	return *on || sysfs_streq(text, "count=off");
}

static ssize_t hydra_proc_write(struct file *file, const char __user *buf,
				size_t count, loff_t *ppos)
{
	union hydra_choice old, settings;
	struct mm_struct *mm;
	char *text;
	bool on;
	int ret;

	if (*ppos || count >= HYDRA_TEXT_MAX)
		return -EINVAL;
	text = memdup_user_nul(buf, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mm = hydra_task_mm(file_inode(file), PTRACE_MODE_ATTACH_FSCREDS);
	if (IS_ERR(mm)) {
		ret = PTR_ERR(mm);
		goto free;
	}
	if (hydra_is_count(text, &on)) {
		ret = hydra_count_set(mm, on);
		goto put;
	}
	/*
	 * A text with keys changes some of the settings, so two writers must not
	 * mix: try again if the settings have changed meanwhile. Do not hold a lock
	 * instead: processes using the address space may hold mmap_lock for long.
	 */
	do {
		old = hydra_settings_get(mm);
		settings = old;
		ret = hydra_settings_parse(text, &settings);
		if (!ret && !hydra_may_choose(file))
			ret = -EPERM;
		if (!ret)
			ret = hydra_settings_set(mm, &old, settings);
	} while (ret == -EAGAIN);
put:
	mmput(mm);
free:
	kfree(text);
	return ret ?: count;
}

const struct file_operations proc_pid_hydra_operations = {
	.open		= hydra_proc_open,
	.read		= seq_read,
	.write		= hydra_proc_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/* The walks stop the process's faults: this takes more rights than reading. */
static int hydra_proc_tables_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_ATTACH_FSCREDS, hydra_show_tables);
}

static int hydra_proc_tables_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_proc_tables_show, inode);
}

const struct file_operations proc_pid_hydra_tables_operations = {
	.open		= hydra_proc_tables_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/* A reader of hydra_map; so that memory is bounded, it holds one range, not all. */
struct hydra_map_reader {
	struct inode *inode;
	loff_t found;			/* ranges so far, with this one */
	struct hydra_map_range range;
};

static int hydra_map_find(struct hydra_map_reader *reader)
{
	struct mm_struct *mm = hydra_task_mm(reader->inode, PTRACE_MODE_ATTACH_FSCREDS);
	int ret;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	ret = hydra_map_next(mm, &reader->range);
	mmput(mm);
	return ret;
}

static void *hydra_map_start(struct seq_file *m, loff_t *pos)
{
	struct hydra_map_reader *reader = m->private;
	int ret;

	if (!*pos || *pos < reader->found - 1) {
		reader->found = 0;
		reader->range = (struct hydra_map_range){ 0 };
	}
	for (; reader->found <= *pos; reader->found++) {
		ret = hydra_map_find(reader);
		if (ret <= 0)
			return ERR_PTR(ret);
	}
	return reader;
}

static void *hydra_map_next_range(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return hydra_map_start(m, pos);
}

static void hydra_map_stop(struct seq_file *m, void *v)
{
}

static int hydra_map_show(struct seq_file *m, void *v)
{
	const struct hydra_map_range *range = &((struct hydra_map_reader *)v)->range;

	seq_printf(m, "domain %u start 0x%lx end 0x%lx node %d\n", range->domain,
		   range->start, range->end, range->nid);
	return 0;
}

static const struct seq_operations hydra_map_seq_operations = {
	.start		= hydra_map_start,
	.next		= hydra_map_next_range,
	.stop		= hydra_map_stop,
	.show		= hydra_map_show,
};

static int hydra_proc_map_open(struct inode *inode, struct file *file)
{
	struct hydra_map_reader *reader;
	int ret = hydra_may_attach(inode);

	if (ret)
		return ret;
	reader = __seq_open_private(file, &hydra_map_seq_operations, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->inode = inode;
	return 0;
}

const struct file_operations proc_pid_hydra_map_operations = {
	.open		= hydra_proc_map_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= seq_release_private,
};

static int hydra_proc_check(struct mm_struct *mm, struct seq_file *m)
{
	return min(hydra_check_mm(mm, m), 0L);
}

static int hydra_proc_check_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_ATTACH_FSCREDS,
				    hydra_proc_check);
}

static int hydra_proc_check_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_proc_check_show, inode);
}

const struct file_operations proc_pid_hydra_check_operations = {
	.open		= hydra_proc_check_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

#ifdef CONFIG_KVM_HYDRA
static int hydra_proc_vm_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_READ_FSCREDS, hydra_vm_show);
}

static int hydra_proc_vm_open(struct inode *inode, struct file *file)
{
	int ret = 0;

	if (file->f_mode & FMODE_WRITE)
		ret = hydra_may_attach(inode);
	return ret ?: single_open(file, hydra_proc_vm_show, inode);
}

static ssize_t hydra_proc_vm_write(struct file *file, const char __user *buf,
				   size_t count, loff_t *ppos)
{
	struct mm_struct *mm;
	char *text;
	int ret;

	if (*ppos || count >= HYDRA_TEXT_MAX)
		return -EINVAL;
	text = memdup_user_nul(buf, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mm = hydra_task_mm(file_inode(file), PTRACE_MODE_ATTACH_FSCREDS);
	if (IS_ERR(mm)) {
		ret = PTR_ERR(mm);
	} else {
		ret = hydra_may_choose(file) ? hydra_vm_set_text(mm, text) : -EPERM;
		mmput(mm);
	}
	kfree(text);
	return ret ?: count;
}

const struct file_operations proc_pid_hydra_vm_operations = {
	.open		= hydra_proc_vm_open,
	.read		= seq_read,
	.write		= hydra_proc_vm_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int hydra_proc_vm_tables_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_ATTACH_FSCREDS, hydra_vm_show_tables);
}

static int hydra_proc_vm_tables_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_proc_vm_tables_show, inode);
}

const struct file_operations proc_pid_hydra_vm_tables_operations = {
	.open		= hydra_proc_vm_tables_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int hydra_proc_vm_map_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_ATTACH_FSCREDS, hydra_vm_show_map);
}

static int hydra_proc_vm_map_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_proc_vm_map_show, inode);
}

const struct file_operations proc_pid_hydra_vm_map_operations = {
	.open		= hydra_proc_vm_map_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int hydra_proc_vm_check_show(struct seq_file *m, void *v)
{
	return hydra_proc_show_with(m, PTRACE_MODE_ATTACH_FSCREDS, hydra_vm_check);
}

/* The walk stops the faults of all VMs of the process, however many tables they have. */
static int hydra_proc_vm_check_open(struct inode *inode, struct file *file)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_proc_vm_check_show, inode);
}

const struct file_operations proc_pid_hydra_vm_check_operations = {
	.open		= hydra_proc_vm_check_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};
#endif /* CONFIG_KVM_HYDRA */
