// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra, hydra_tables and hydra_check. What they say is made in
 * mm/hydra/; here is who may ask.
 */

#include <linux/fs.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../../mm/hydra/internal.h"
#include "internal.h"

/*
 * The address space of a process, if the reader or writer may. As for other
 * processes' settings: EPERM if not.
 */
static struct mm_struct *hydra_task_mm(struct inode *inode, unsigned int mode)
{
	struct task_struct *task = get_proc_task(inode);
	struct mm_struct *mm;

	if (!task)
		return ERR_PTR(-ESRCH);
	mm = hydra_breaks(HYDRA_BREAK_ADMIT_ANYONE) ? get_task_mm(task) :
						      mm_access(task, mode);
	put_task_struct(task);
	if (!mm)
		return ERR_PTR(-ESRCH);
	return mm == ERR_PTR(-EACCES) ? ERR_PTR(-EPERM) : mm;
}

static int hydra_show_with(struct seq_file *m, unsigned int mode,
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

static int hydra_settings_show(struct seq_file *m, void *v)
{
	return hydra_show_with(m, PTRACE_MODE_READ_FSCREDS, hydra_show);
}

/* At open as well, so that nobody hands the open file to a program that may more. */
static int hydra_may_attach(struct inode *inode)
{
	struct mm_struct *mm = hydra_task_mm(inode, PTRACE_MODE_ATTACH_FSCREDS);

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	mmput(mm);
	return 0;
}

static int hydra_settings_open(struct inode *inode, struct file *file)
{
	int ret = 0;

	if (file->f_mode & FMODE_WRITE)
		ret = hydra_may_attach(inode);
	return ret ?: single_open(file, hydra_settings_show, inode);
}

static ssize_t hydra_settings_write(struct file *file, const char __user *buf,
				    size_t count, loff_t *ppos)
{
	struct mm_struct *mm;
	u32 old, settings;
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
		goto free;
	}
	/*
	 * Keys alone change what they name: two writers must not mix. No lock but
	 * those of the address space: its users decide how long they are held.
	 */
	do {
		old = hydra_get(mm);
		settings = old;
		ret = hydra_parse(text, &settings);
		if (!ret)
			ret = hydra_set(mm, &old, settings);
	} while (ret == -EAGAIN);
	mmput(mm);
free:
	kfree(text);
	return ret ?: count;
}

const struct file_operations proc_pid_hydra_operations = {
	.open		= hydra_settings_open,
	.read		= seq_read,
	.write		= hydra_settings_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/* The walks stop the faults of the process: more than to look at it. */
static int hydra_tables_show(struct seq_file *m, void *v)
{
	return hydra_show_with(m, PTRACE_MODE_ATTACH_FSCREDS, hydra_show_tables);
}

static int hydra_tables_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_tables_show, inode);
}

const struct file_operations proc_pid_hydra_tables_operations = {
	.open		= hydra_tables_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int hydra_check_and_say(struct mm_struct *mm, struct seq_file *m)
{
	return min(hydra_check(mm, m), 0L);
}

static int hydra_check_show(struct seq_file *m, void *v)
{
	return hydra_show_with(m, PTRACE_MODE_ATTACH_FSCREDS,
			       hydra_check_and_say);
}

static int hydra_check_open(struct inode *inode, struct file *file)
{
	return hydra_may_attach(inode) ?:
	       single_open(file, hydra_check_show, inode);
}

const struct file_operations proc_pid_hydra_check_operations = {
	.open		= hydra_check_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};
