// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which users may read and set the settings of which processes: askers with and without
 * privileges; targets of all kinds; processes after their end; files opened before the
 * rights changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define NOBODY		65534
#define SOMEBODY	4711

/* The result of a system call: -errno, or the number */
#define RESULT(call) ({				\
	long __result = (call);			\
						\
	__result == -1 ? -errno : __result;	\
})

static bool become_user(uid_t uid, gid_t gid)
{
	return !setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid) &&
	       !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool stay_root(void)
{
	return true;
}

static bool become_nobody(void)
{
	return become_user(NOBODY, NOBODY);
}

static bool become_somebody(void)
{
	return become_user(SOMEBODY, SOMEBODY);
}

static bool become_nobody_in_another_group(void)
{
	return become_user(NOBODY, SOMEBODY);
}

static bool become_undumpable(void)
{
	return become_nobody() && !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static bool limit_capabilities(uint64_t permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .permitted = permitted, .effective = permitted },
		{ .permitted = permitted >> 32, .effective = permitted >> 32 },
	};

	return !syscall(SYS_capset, &header, data) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_nobody_with(int capability)
{
	return !prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && become_nobody() &&
	       limit_capabilities(1UL << capability);
}

static bool become_capable(void)
{
	return become_nobody_with(CAP_NET_RAW);
}

static bool become_tracer(void)
{
	return become_nobody_with(CAP_SYS_PTRACE);
}

static bool become_powerless(void)
{
	return limit_capabilities(0);
}

static bool become_half_root(void)
{
	return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, 0) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_namespaced(void)
{
	return become_nobody() && !unshare(CLONE_NEWUSER) &&
	       !hydra_write_file("/proc/self/setgroups", "deny") &&
	       !hydra_write_file("/proc/self/uid_map", "0 65534 1") &&
	       !hydra_write_file("/proc/self/gid_map", "0 65534 1") &&
	       !getuid() && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* The askers */
enum { ROOT, POWERLESS, TRACER, NOBODY_ITSELF, SOMEBODY_ELSE, OTHER_GROUP, NAMESPACED, ASKERS };

static const struct {
	const char *name;
	bool (*become)(void);
	int user;
	bool may_change_machine;
} askers[ASKERS] = {
	[ROOT]		= { "root", stay_root, 0, true },
	/* The files of the machine belong to the user root. */
	[POWERLESS]	= { "root without capabilities", become_powerless, 0, true },
	[TRACER]	= { "nobody with CAP_SYS_PTRACE", become_tracer, NOBODY },
	[NOBODY_ITSELF]	= { "nobody", become_nobody, NOBODY },
	[SOMEBODY_ELSE]	= { "somebody", become_somebody, SOMEBODY },
	[OTHER_GROUP]	= { "nobody in another group", become_nobody_in_another_group, NOBODY },
	[NAMESPACED]	= { "root of a user namespace", become_namespaced, NOBODY },
};

/*
 * The targets, each with the askers that may read and set the target's settings: all that
 * may attach to the target with ptrace, which are
 *  - askers with CAP_SYS_PTRACE;
 *  - the same user and group, unless the target cannot be dumped, has more capabilities,
 *    or is in another user namespace;
 *  - the owner of the namespace.
 * Only the owner can open hydra_tables, hydra_map and hydra_check: the user of the target,
 * or root if the target cannot be dumped.
 */
static const struct {
	const char *name;
	bool (*become)(void);
	int owner;
	unsigned int may;
} targets[] = {
#define BY(asker)	(1U << (asker))
	{ "a process of root", stay_root, 0, BY(ROOT) | BY(TRACER) },
	{ "a process of nobody", become_nobody, NOBODY,
	  BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) },
	{ "one that cannot be dumped", become_undumpable, 0, BY(ROOT) | BY(TRACER) },
	{ "a process of somebody", become_somebody, SOMEBODY,
	  BY(ROOT) | BY(TRACER) | BY(SOMEBODY_ELSE) },
	{ "one with a capability", become_capable, NOBODY, BY(ROOT) | BY(TRACER) },
	{ "one that was root", become_half_root, NOBODY, BY(ROOT) | BY(TRACER) },
	{ "one in a user namespace", become_namespaced, NOBODY,
	  BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) | BY(OTHER_GROUP) },
};

/* The answers to an asker, in memory shared by the asker and the test. */
enum { WRITES, READS, READS_TABLES, READS_MAP, READS_CHECK, WRITES_DEFAULT, WRITES_LIMIT, SETS_ITSELF, ASKED };

static long *answers;

FIXTURE(permissions) {
	char sysfs_default[128], limit[64];
};

FIXTURE_SETUP(permissions)
{
	HYDRA_BEGIN();
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", self->sysfs_default,
				     sizeof(self->sysfs_default)));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "replica_limit_kib", self->limit,
				     sizeof(self->limit)));
	answers = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, answers);
}

FIXTURE_TEARDOWN(permissions)
{
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", self->sysfs_default));
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", self->limit));
}

/* Start a child with the rights of a target; the child waits. Return: the pid, or -1. */
static pid_t spawn(bool (*become)(void))
{
	int ready[2];
	pid_t child;
	char c;

	if (pipe2(ready, O_CLOEXEC))
		return -1;
	fflush(NULL);
	child = fork();
	if (!child) {
		if (!become())
			_exit(1);
		/* The change of credentials cleared the signal. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		child = -1;
	close(ready[0]);
	return child;
}

static long read_file(pid_t pid, const char *name)
{
	char path[64], text[16384];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return hydra_read_file(path, text, sizeof(text));
}

static void ask(pid_t pid, unsigned int prefetch)
{
	char text[64];

	snprintf(text, sizeof(text), "hydra,prefetch=%u", prefetch);
	answers[WRITES] = hydra_write_policy(pid, text);
	answers[READS] = read_file(pid, "hydra");
	answers[READS_TABLES] = read_file(pid, "hydra_tables");
	answers[READS_MAP] = read_file(pid, "hydra_map");
	answers[READS_CHECK] = read_file(pid, "hydra_check");
	answers[WRITES_DEFAULT] = hydra_write_file(HYDRA_SYSFS "default", "linux");
	answers[WRITES_LIMIT] = hydra_write_file(HYDRA_SYSFS "replica_limit_kib", "4096");
	answers[SETS_ITSELF] = hydra_on(prefetch, HYDRA_FILTER_TABLE);
}

#define EXPECT_ANSWER(what, refused, error)					\
	EXPECT_TRUE((refused) ? answers[what] == -(error) : answers[what] >= 0)	\
		TH_LOG("%s asks %s: " #what " gives %ld", askers[asker].name,	\
		       targets[target].name, answers[what])

TEST_F_TIMEOUT(permissions, checked_for_each_pair_of_users, 120)
{
	for (int target = 0; target < ARRAY_SIZE(targets); target++) {
		pid_t pid = spawn(targets[target].become);
		unsigned int prefetch = 9;

		ASSERT_LT(0, pid)
			TH_LOG("no process can become %s", targets[target].name);
		for (int asker = 0; asker < ASKERS; asker++) {
			bool may = targets[target].may & BY(asker);
			bool opens = asker == ROOT || askers[asker].user == targets[target].owner;
			struct hydra_stats stats;
			pid_t child;

			fflush(NULL);
			child = fork();
			if (!child) {
				if (!askers[asker].become())
					_exit(1);
				ask(pid, asker);
				_exit(0);
			}
			ASSERT_EQ(0, hydra_wait_child(child))
				TH_LOG("no process can become %s", askers[asker].name);
			EXPECT_ANSWER(WRITES, !may, EPERM);
			EXPECT_ANSWER(READS, !may, EPERM);
			EXPECT_ANSWER(READS_TABLES, !opens || !may, opens ? EPERM : EACCES);
			EXPECT_ANSWER(READS_MAP, !opens || !may, opens ? EPERM : EACCES);
			EXPECT_ANSWER(READS_CHECK, !opens || !may, opens ? EPERM : EACCES);
			EXPECT_ANSWER(WRITES_DEFAULT, !askers[asker].may_change_machine, EACCES);
			EXPECT_ANSWER(WRITES_LIMIT, !askers[asker].may_change_machine, EACCES);
			EXPECT_ANSWER(SETS_ITSELF, false, 0);
			if (may)
				prefetch = asker;
			ASSERT_EQ(0, hydra_read_stats(pid, &stats));
			EXPECT_EQ(prefetch, stats.prefetch)
				TH_LOG("after %s has asked %s", askers[asker].name,
				       targets[target].name);
		}
		kill(pid, SIGKILL);
		hydra_wait_child(pid);
	}
}

/* Processes without memory: kernel threads, and processes after their end */

static long write_held(int fd)
{
	return RESULT(write(fd, "hydra,prefetch=1", 16));
}

static long read_held(int fd)
{
	char text[64];

	return RESULT(pread(fd, text, sizeof(text), 0));
}

TEST_F(permissions, kernel_threads_have_no_settings)
{
	EXPECT_EQ(-ESRCH, hydra_write_policy(2, "hydra"));
	EXPECT_EQ(-ESRCH, read_file(2, "hydra"));
	EXPECT_EQ(-ESRCH, read_file(2, "hydra_tables"));
	EXPECT_EQ(-ESRCH, read_file(2, "hydra_map"));
}

TEST_F(permissions, end_with_the_process)
{
	pid_t pid = spawn(stay_root);
	siginfo_t info;
	char path[64];
	int fd;

	ASSERT_LT(0, pid);
	snprintf(path, sizeof(path), "/proc/%d/hydra", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(16, write_held(fd));
	kill(pid, SIGKILL);
	/* a zombie */
	ASSERT_EQ(0, waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	EXPECT_EQ(-ESRCH, hydra_write_policy(pid, "hydra"));
	EXPECT_EQ(-ESRCH, write_held(fd));
	EXPECT_EQ(-ESRCH, read_held(fd));
	hydra_wait_child(pid);
	EXPECT_EQ(-ENOENT, hydra_write_policy(pid, "hydra"));
	EXPECT_EQ(-ESRCH, write_held(fd));
	EXPECT_EQ(-ESRCH, read_held(fd));
	close(fd);
}

/* Files that a process opened with more rights than later */

TEST_F(permissions, are_not_kept_by_an_open_file)
{
	pid_t pid = spawn(stay_root), child;
	char path[64];

	ASSERT_LT(0, pid);
	snprintf(path, sizeof(path), "/proc/%d/hydra", pid);
	fflush(NULL);
	child = fork();
	if (!child) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd < 0 || !become_nobody())
			_exit(1);
		answers[WRITES] = write_held(fd);
		answers[READS] = read_held(fd);
		_exit(0);
	}
	ASSERT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(-EPERM, answers[WRITES]);
	EXPECT_EQ(-EPERM, answers[READS]);
	kill(pid, SIGKILL);
	hydra_wait_child(pid);
}

/*
 * Executed as "executed": the program reports the execution, reads a path, and executes
 * the path.
 */
static int executed(int orders, int replies)
{
	char path[128], in[16], out[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(replies, "r", 1) != 1 || read(orders, path, sizeof(path)) != sizeof(path))
		return 0;
	sprintf(in, "%d", orders);
	sprintf(out, "%d", replies);
	execl(path, path, "executed", in, out, NULL);
	return 1;
}

/*
 * A process of the user nobody opens a file of a child. Then the child executes two
 * programs.
 */
static bool hold_over_exec(const char *plain, const char *set_uid)
{
	int orders[2], replies[2];
	char text[128] = "", c;
	pid_t child;
	int fd;

	if (!become_nobody() || pipe(orders) || pipe(replies))
		return false;
	child = fork();
	if (!child) {
		close(orders[1]);
		_exit(executed(orders[0], replies[1]));
	}
	sprintf(text, "/proc/%d/hydra", child);
	fd = open(text, O_RDWR | O_CLOEXEC);
	if (fd < 0 || read(replies[0], &c, 1) != 1)
		return false;
	answers[0] = write_held(fd);
	for (int step = 0; step < 2; step++) {
		snprintf(text, sizeof(text), "%s", step ? set_uid : plain);
		if (write(orders[1], text, sizeof(text)) != sizeof(text) ||
		    read(replies[0], &c, 1) != 1)
			return false;
		answers[2 * step + 1] = write_held(fd);
		answers[2 * step + 2] = read_held(fd);
	}
	close(orders[1]);
	return !hydra_wait_child(child);
}

TEST_F(permissions, are_not_kept_over_exec_of_a_set_uid_program)
{
	char directory[] = "/tmp/hydra-permissions-XXXXXX", plain[64], set_uid[64], command[512];
	pid_t child;

	ASSERT_NE(NULL, mkdtemp(directory));
	/* A file system with set-uid bits, readable for all users */
	ASSERT_EQ(0, mount("none", directory, "tmpfs", 0, "mode=755"));
	snprintf(plain, sizeof(plain), "%s/plain", directory);
	snprintf(set_uid, sizeof(set_uid), "%s/set_uid", directory);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && cp %s %s && chmod 4755 %s",
		 getpid(), plain, plain, set_uid, set_uid);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, chmod(plain, 0755));

	fflush(NULL);
	child = fork();
	if (!child)
		_exit(!hold_over_exec(plain, set_uid));
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(16, answers[0]);
	EXPECT_EQ(16, answers[1]);
	EXPECT_LT(0, answers[2]);
	EXPECT_EQ(-EPERM, answers[3]);
	EXPECT_EQ(-EPERM, answers[4]);
	EXPECT_EQ(0, umount2(directory, MNT_DETACH));
	EXPECT_EQ(0, rmdir(directory));
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "executed"))
		return executed(atoi(argv[2]), atoi(argv[3]));
	return test_harness_run(argc, argv);
}
