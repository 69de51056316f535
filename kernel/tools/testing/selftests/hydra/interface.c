// SPDX-License-Identifier: GPL-2.0-only
/* The interface of Hydra: prctl, /proc/PID/hydra, /sys/kernel/mm/hydra. */
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define SEED	0x1001
#define PAGES	16

static const struct hydra_settings hydra_settings = {
	HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_TABLE,
};

static bool same(const struct hydra_settings *a, const struct hydra_settings *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* While the threads run: with a single thread the process returns to plain Linux soon. */
static struct hydra_stats stats_then;

/*
 * Threads on all nodes write and read memory, and lose access to the memory. Return:
 * mistakes.
 */
static size_t memory_mistakes(void)
{
	void *area = hydra_map((char *)hydra_reserve(2 * TABLE_SIZE) + TABLE_SIZE -
			       PAGES / 2 * PAGE_SIZE, PAGES);
	size_t mistakes;

	hydra_start_workers(HYDRA_SLEEP);
	hydra_write_pages(hydra_nodes() - 1, area, PAGES, SEED);
	mistakes = hydra_probe_all(area, PAGES, HYDRA_READ_WRITE, SEED);
	if (hydra_syscall(1, SYS_mprotect, (long)area, PAGES * PAGE_SIZE, PROT_READ))
		mistakes++;
	mistakes += hydra_probe_all(area, PAGES, HYDRA_READ_ONLY, SEED);
	mistakes += !!hydra_read_stats(getpid(), &stats_then);
	hydra_stop_workers();
	return mistakes;
}

#define REPORT	"DOMAINS %u REPLICATION %u PREFETCH %u FILTER %u ACTIVE %lu MISTAKES %zu"

/* Executed when a test runs this program with the argument "report" */
static int report(void)
{
	struct hydra_settings s;
	struct hydra_stats stats;
	size_t mistakes;

	if (hydra_begin() || hydra_get(&s) || hydra_read_stats(getpid(), &stats))
		return 1;
	mistakes = memory_mistakes();
	if (!hydra_consistent(getpid()))
		mistakes++;
	printf(REPORT "\n", s.domains, s.replication, s.prefetch, s.filter, stats.active,
	       mistakes);
	return 0;
}

static bool become_nobody(void)
{
	struct passwd *nobody = getpwnam("nobody");

	return nobody && !setgid(nobody->pw_gid) && !setuid(nobody->pw_uid);
}

/*
 * Execute this program under a path and read the report. As nobody: the child first
 * becomes the user nobody and switches Hydra on.
 *
 * Return: the settings of the executed program, or all ones if no report came.
 */
static struct hydra_settings execute_program(const char *path, bool as_nobody, uint64_t *active,
					     size_t *mistakes)
{
	struct hydra_settings s = { -1, -1, -1, -1 };
	char text[256] = "";
	int out[2], child;
	FILE *from;

	if (pipe(out))
		return s;
	fflush(NULL);
	child = fork();
	if (!child) {
		dup2(out[1], STDOUT_FILENO);
		if (as_nobody && (!become_nobody() || hydra_on(3, HYDRA_FILTER_TABLE)))
			_exit(1);
		execl(path, "interface", "report", NULL);
		_exit(1);
	}
	close(out[1]);
	from = fdopen(out[0], "r");
	if (!fgets(text, sizeof(text), from) ||
	    sscanf(text, REPORT, &s.domains, &s.replication, &s.prefetch, &s.filter, active,
		   mistakes) != 6)
		fprintf(stderr, "# the program executed reports \"%s\"\n", text);
	fclose(from);
	if (hydra_wait_child(child))
		s.domains = -1;
	return s;
}

static struct hydra_settings execute(uint64_t *active, size_t *mistakes)
{
	return execute_program("/proc/self/exe", false, active, mistakes);
}

FIXTURE(interface) {
	char sysfs_default[128];
	char limit[64];
};

FIXTURE_SETUP(interface)
{
	HYDRA_BEGIN();
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", self->sysfs_default,
				     sizeof(self->sysfs_default)));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "replica_limit_kib", self->limit,
				     sizeof(self->limit)));
}

FIXTURE_TEARDOWN(interface)
{
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", self->sysfs_default));
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", self->limit));
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "total_limit_kib", "max"));
	hydra_assert_consistent();
}

TEST_F(interface, off_at_first)
{
	struct hydra_settings s;
	struct hydra_stats stats;

	ASSERT_EQ(0, hydra_get(&s));
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, s.domains);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_STREQ("linux", stats.policy);
	EXPECT_EQ(0, stats.active);
	EXPECT_EQ(0, stats.replica_tables);
}

/*
 * Whether the kernel reports that the machine does not support a setting. The kernel must
 * give a reason.
 */
static bool is_refused(const char *setting)
{
	char text[256], line[64];
	const char *why;

	snprintf(line, sizeof(line), "\nno %s: ", setting);
	if (hydra_read_file(HYDRA_SYSFS "supported", text, sizeof(text)) < 0)
		return false;
	why = strstr(text, line);
	return why && strlen(why) > strlen(line) + 1;
}

TEST_F(interface, set_and_get)
{
	static const char * const filters[] = { "none", "table", "entry", "accessed", "auto" };
	struct hydra_settings s = hydra_settings, seen;
	bool refused = is_refused("filter=accessed");
	struct hydra_stats stats;

	for (s.prefetch = 0; s.prefetch <= HYDRA_PREFETCH_MAX; s.prefetch++)
		for (s.filter = HYDRA_FILTER_NONE; s.filter <= HYDRA_FILTER_AUTO; s.filter++) {
			if (s.filter == HYDRA_FILTER_ACCESSED && refused)
				continue;
			ASSERT_EQ(0, hydra_set(&s));
			ASSERT_EQ(0, hydra_get(&seen));
			EXPECT_TRUE(same(&s, &seen));
			ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
			EXPECT_EQ(1, stats.active);
			EXPECT_STREQ("node", stats.domains);
			EXPECT_STREQ("lazy", stats.replication);
			EXPECT_STREQ(filters[s.filter], stats.filter);
			EXPECT_EQ(s.prefetch, stats.prefetch);
			EXPECT_STREQ(same(&s, &hydra_settings) ? "hydra" : "custom",
				     stats.policy);
		}

	/* what "linux" stands for can be set by prctl too */
	ASSERT_EQ(0, hydra_off());
	ASSERT_EQ(0, hydra_get(&s));
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, s.domains);
	ASSERT_EQ(0, hydra_set(&hydra_settings));
	ASSERT_EQ(0, hydra_set(&s));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&s, &seen));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_STREQ("linux", stats.policy);
	EXPECT_EQ(0, stats.active);
	EXPECT_EQ(0, stats.replica_tables);
}

TEST_F(interface, bad_values_change_nothing)
{
	/*
	 * One value for each error. KUnit tests all refused values:
	 * hydra_test_take.
	 */
	static const struct {
		struct hydra_settings settings;
		int error;
	} bad[] = {
		{ { 1, 0, 10, 1 }, EINVAL },
		{ { HYDRA_SCOPE_MACHINE, HYDRA_REPLICATE_EAGER, 9, 0 }, EINVAL },
	};
	const struct hydra_settings other = { 1, 0, 3, 0 };
	struct hydra_settings seen;

	for (int on = 0; on < 2; on++) {
		struct hydra_settings before;

		if (on) {
			ASSERT_EQ(0, hydra_on(7, HYDRA_FILTER_NONE));
		}
		ASSERT_EQ(0, hydra_get(&before));
		for (int i = 0; i < ARRAY_SIZE(bad); i++) {
			EXPECT_EQ(-bad[i].error, hydra_set(&bad[i].settings))
				TH_LOG("with bad[%d]", i);
			ASSERT_EQ(0, hydra_get(&seen));
			EXPECT_TRUE(same(&before, &seen))
				TH_LOG("after bad[%d]", i);
		}

		EXPECT_EQ(-1, prctl(PR_SET_HYDRA, &other, sizeof(other), 1, 0));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, prctl(PR_SET_HYDRA, &other, sizeof(other), 0, 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, prctl(PR_GET_HYDRA, &seen, sizeof(seen), 1, 0));
		EXPECT_EQ(EINVAL, errno);
		ASSERT_EQ(0, hydra_get(&seen));
		EXPECT_TRUE(same(&before, &seen));
	}
}

/* One text for each error. KUnit tests all refused texts: hydra_test_parse_refuses. */
static const struct {
	const char *text;
	int error;
} bad_texts[] = {
	{ "hydra,filter=none,prefetch=99", EINVAL },
	{ "linux,replication=eager", EINVAL },
};

TEST_F(interface, bad_text_changes_nothing)
{
	struct hydra_settings before, seen;
	char text[128], now[128];
	char *huge = malloc(3 * PAGE_SIZE);

	memset(huge, ',', 3 * PAGE_SIZE);
	memcpy(huge, "hydra", 5);
	huge[3 * PAGE_SIZE - 1] = 0;
	ASSERT_EQ(0, hydra_on(4, HYDRA_FILTER_NONE));
	ASSERT_EQ(0, hydra_get(&before));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", text, sizeof(text)));

	for (int i = 0; i < ARRAY_SIZE(bad_texts); i++) {
		EXPECT_EQ(-bad_texts[i].error, hydra_write_policy(getpid(), bad_texts[i].text))
			TH_LOG("/proc/self/hydra, \"%s\"", bad_texts[i].text);
		EXPECT_EQ(-bad_texts[i].error,
			  hydra_write_file(HYDRA_SYSFS "default", bad_texts[i].text))
			TH_LOG("the default, \"%s\"", bad_texts[i].text);
	}
	EXPECT_GT(0, hydra_write_policy(getpid(), huge));

	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&before, &seen));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", now, sizeof(now)));
	EXPECT_STREQ(text, now);
}

/* The first byte after a page, which is to be unmapped */
static char *page_before_nothing(void)
{
	return (char *)hydra_map(hydra_reserve(TABLE_SIZE), 2) + PAGE_SIZE;
}

TEST_F(interface, bad_sizes_and_pointers_change_nothing)
{
	static const unsigned long sizes[] = {
		0, 4, 15, PAGE_SIZE + 1, 1UL << 32 | 16, 1UL << 63 | 16, -16UL, -1UL,
	};
	char *end = page_before_nothing(), *read_only, *page;
	struct hydra_settings s = hydra_settings, before, seen;

	ASSERT_EQ(0, munmap(end, PAGE_SIZE));
	read_only = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, read_only);
	char *nowhere[] = {
		NULL, end - sizeof(s) + 1, end, (char *)0x800000000000, (char *)0x8000000000000000,
		(char *)0xffffffff81000000, (char *)-16L,
	};
	ASSERT_EQ(0, hydra_on(7, HYDRA_FILTER_NONE));
	ASSERT_EQ(0, hydra_get(&before));
	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		int err = sizes[i] < sizeof(s) ? EINVAL : E2BIG;

		EXPECT_EQ(-1, prctl(PR_SET_HYDRA, &s, sizes[i], 0, 0));
		EXPECT_EQ(err, errno);
		EXPECT_EQ(-1, prctl(PR_GET_HYDRA, &seen, sizes[i], 0, 0));
		EXPECT_EQ(err, errno);
	}
	for (int i = 0; i < ARRAY_SIZE(nowhere); i++) {
		EXPECT_EQ(-1, prctl(PR_SET_HYDRA, nowhere[i], sizeof(s), 0, 0));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(-1, prctl(PR_GET_HYDRA, nowhere[i], sizeof(s), 0, 0));
		EXPECT_EQ(EFAULT, errno);
	}
	EXPECT_EQ(-1, prctl(PR_GET_HYDRA, read_only, sizeof(s), 0, 0));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&before, &seen));

	/* The kernel writes up to the end of the page, and nothing before the settings. */
	page = end - PAGE_SIZE;
	memset(page, 0x5a, PAGE_SIZE);
	ASSERT_EQ(0, prctl(PR_GET_HYDRA, end - sizeof(s), sizeof(s), 0, 0));
	EXPECT_EQ(0, memcmp(end - sizeof(s), &before, sizeof(s)));
	for (size_t i = 0; i < PAGE_SIZE - sizeof(s); i++)
		ASSERT_EQ(0x5a, page[i]);
	memcpy(end - sizeof(s), &s, sizeof(s));
	ASSERT_EQ(0, prctl(PR_SET_HYDRA, end - sizeof(s), sizeof(s), 0, 0));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&s, &seen));
}

/* A program may know more members than the kernel: they have to be 0, and become 0. */
TEST_F(interface, settings_of_a_newer_program)
{
	char *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct hydra_settings s = hydra_settings, seen;

	ASSERT_NE(MAP_FAILED, page);
	for (size_t size = sizeof(s) + 1; size <= PAGE_SIZE; size += size < 64 ? 1 : 504) {
		s.prefetch = size % 8;
		memcpy(page, &s, sizeof(s));
		ASSERT_EQ(0, prctl(PR_SET_HYDRA, page, size, 0, 0)) TH_LOG("size %zu", size);
		memset(page, 0x5a, PAGE_SIZE);
		ASSERT_EQ(0, prctl(PR_GET_HYDRA, page, size, 0, 0)) TH_LOG("size %zu", size);
		EXPECT_EQ(0, memcmp(page, &s, sizeof(s)));
		for (size_t i = sizeof(s); i < PAGE_SIZE; i++)
			ASSERT_EQ(i < size ? 0 : 0x5a, page[i]);
		memset(page, 0, PAGE_SIZE);
		page[size - 1] = 1;
		s.prefetch = 9;
		memcpy(page, &s, sizeof(s));
		EXPECT_EQ(-1, prctl(PR_SET_HYDRA, page, size, 0, 0));
		EXPECT_EQ(E2BIG, errno);
		page[size - 1] = 0;
		ASSERT_EQ(0, hydra_get(&seen));
		EXPECT_EQ(size % 8, seen.prefetch);
	}
	munmap(page, PAGE_SIZE);
}

#define TEXT_MAX	128	/* a text has to be shorter */

TEST_F(interface, each_write_is_one_text)
{
	char text[3 * TEXT_MAX], *end = page_before_nothing();
	struct hydra_settings before, seen;
	int fd;

	ASSERT_EQ(0, munmap(end, PAGE_SIZE));
	memset(text, ' ', sizeof(text));
	memcpy(text, "hydra", 5);
	fd = open("/proc/self/hydra", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(TEXT_MAX - 1, write(fd, text, TEXT_MAX - 1));
	/* each write is a text, and ends at a zero byte */
	EXPECT_EQ(15, write(fd, "prefetch=3\0junk", 15));
	ASSERT_EQ(0, hydra_get(&before));
	EXPECT_EQ(3, before.prefetch);
	EXPECT_EQ(HYDRA_SCOPE_NODE, before.domains);
	EXPECT_EQ(-1, write(fd, text, TEXT_MAX));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(fd, text, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(fd, end - 4, 8));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, pwrite(fd, "prefetch=4", 10, 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(1, lseek(fd, 1, SEEK_SET));
	EXPECT_EQ(-1, write(fd, "prefetch=4", 10));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
	EXPECT_EQ(-ENOENT, hydra_write_file("/proc/thread-self/hydra", "hydra"));

	fd = open(HYDRA_SYSFS "default", O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, write(fd, text, TEXT_MAX));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(fd, end - 4, 8));
	EXPECT_EQ(EFAULT, errno);
	close(fd);
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&before, &seen));
}

/* Two processes write one setting each. Neither undoes what the other one has done. */
TEST_F(interface, two_writers_do_not_undo_each_other)
{
	struct hydra_settings seen;
	int writer[2];

	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	for (int i = 0; i < 2; i++) {
		int parent = getpid();

		writer[i] = fork();
		if (writer[i])
			continue;
		hydra_pin_to_node(i);
		for (int n = 0; n <= 399; n++) {
			char text[32];

			if (i)
				sprintf(text, "filter=%s", n % 2 ? "none" : "table");
			else
				sprintf(text, "prefetch=%d", n % 7);
			if (hydra_write_policy(parent, text))
				_exit(1);
		}
		_exit(0);
	}
	EXPECT_EQ(0, hydra_wait_child(writer[0]));
	EXPECT_EQ(0, hydra_wait_child(writer[1]));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(399 % 7, seen.prefetch);
	EXPECT_EQ(HYDRA_FILTER_NONE, seen.filter);
}

static void *map_and_set_own(void *arg)
{
	struct hydra_settings s = hydra_settings;

	hydra_pin_to_node((long)arg);
	for (;;) {
		char *page = mmap(NULL, 4 * PAGE_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < 4; i++)
			page[i * PAGE_SIZE] = 1;
		munmap(page, 4 * PAGE_SIZE);
		s.prefetch = (s.prefetch + 1) % 10;
		if (hydra_set(&s))
			abort();
	}
	return NULL;
}

/*
 * A victim maps memory while the victim and a writer change the victim's settings. Then
 * the victim is killed.
 */
TEST_F_TIMEOUT(interface, written_to_until_it_dies, 120)
{
	for (int round = 0; round < 16; round++) {
		int victim = fork(), writer;

		if (!victim) {
			pthread_t thread;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (long node = 1; node < hydra_nodes(); node++)
				pthread_create(&thread, NULL, map_and_set_own, (void *)node);
			map_and_set_own(NULL);
		}
		writer = fork();
		if (!writer) {
			char path[64], text[256];
			int err = 0;

			snprintf(path, sizeof(path), "/proc/%d/hydra_check", victim);
			for (int n = 0; !err; n++) {
				err = hydra_write_policy(victim, n % 3 ? "hydra,prefetch=2" :
									 "linux");
				if (n % 8 == 0 && hydra_read_file(path, text, sizeof(text)) > 0 &&
				    strncmp(text, "ok ", 3))
					_exit(1);
			}
			_exit(err != -ESRCH && err != -ENOENT);
		}
		usleep(20000 + round * 7000);
		kill(victim, SIGKILL);
		EXPECT_EQ(128 + SIGKILL, hydra_wait_child(victim));
		EXPECT_EQ(0, hydra_wait_child(writer));
	}
}

TEST_F(interface, proc_write)
{
	const struct hydra_settings wanted = { 1, 0, 4, 0 };
	struct hydra_settings seen;

	EXPECT_EQ(0, hydra_write_policy(getpid(), "hydra,prefetch=4,filter=none\n"));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&wanted, &seen));
	EXPECT_EQ(0, memory_mistakes());
	EXPECT_EQ(0, hydra_write_policy(getpid(), "hydra,domains=machine"));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, seen.domains);
	EXPECT_EQ(0, memory_mistakes());
}

/* What each file shows can be written to the other, and means the same settings. */
TEST_F(interface, policies_as_text)
{
	static const char * const texts[] = {
		"domains=node,replication=lazy,prefetch=0,filter=entry",
		"domains=node,replication=lazy,prefetch=9,filter=accessed",
		"mitosis",
		"radixvm",
		"abis",
		"domains=llc,replication=lazy,prefetch=9,filter=table",
		"domains=node,replication=lazy,prefetch=9,filter=auto",
		"auto",
		"domains=auto,replication=lazy,prefetch=9,filter=table",
	};
	static const struct hydra_settings settings[] = {
		{ HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 0, HYDRA_FILTER_ENTRY },
		{ HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_ACCESSED },
		{ HYDRA_SCOPE_NODE, HYDRA_REPLICATE_EAGER, 9, HYDRA_FILTER_NONE },
		{ HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, 0, HYDRA_FILTER_ENTRY },
		{ HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_ACCESSED },
		{ HYDRA_SCOPE_LLC, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_TABLE },
		{ HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_AUTO },
		{ HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_AUTO },
		{ HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_TABLE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(texts); i++) {
		int error = settings[i].filter == HYDRA_FILTER_ACCESSED &&
			    is_refused("filter=accessed") ? -EOPNOTSUPP : 0;
		struct hydra_settings seen;
		char text[128];

		ASSERT_EQ(error, hydra_write_file(HYDRA_SYSFS "default", texts[i]));
		ASSERT_EQ(error, hydra_write_policy(getpid(), texts[i]));
		if (error)
			continue;
		ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", text, sizeof(text)));
		EXPECT_STREQ(texts[i], strtok(text, "\n"));
		ASSERT_EQ(0, hydra_get(&seen));
		EXPECT_TRUE(same(&settings[i], &seen))
			TH_LOG("%s", texts[i]);
		EXPECT_EQ(0, memory_mistakes());
	}
}

TEST_F(interface, fork_inherits)
{
	const struct hydra_settings wanted = { 1, 0, 6, 1 };
	struct hydra_settings seen;
	int child;

	ASSERT_EQ(0, hydra_set(&wanted));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct hydra_stats stats;

		if (hydra_get(&seen) || !same(&wanted, &seen))
			_exit(1);
		if (hydra_read_stats(getpid(), &stats) || !stats.active)
			_exit(2);
		if (memory_mistakes() || !hydra_consistent(getpid()))
			_exit(3);
		/* The write changes the settings of the child, not of the parent. */
		_exit(hydra_off() ? 4 : 0);
	}
	EXPECT_EQ(0, hydra_wait_child(child));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_TRUE(same(&wanted, &seen));
	EXPECT_EQ(0, memory_mistakes());
}

TEST_F(interface, default_for_new_programs)
{
	const struct hydra_settings wanted = { 1, 0, 3, 1 };
	struct hydra_settings seen;
	size_t mistakes = -1;
	uint64_t active = -1;

	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", "hydra,prefetch=3\n"));
	seen = execute(&active, &mistakes);
	EXPECT_TRUE(same(&wanted, &seen))
		TH_LOG("saw %u %u %u %u", seen.domains, seen.replication, seen.prefetch,
		       seen.filter);
	EXPECT_EQ(1, active);
	EXPECT_EQ(0, mistakes);
	/* A running process keeps the settings when the default changes. */
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, seen.domains);

	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", "linux"));
	seen = execute(&active, &mistakes);
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, seen.domains);
	EXPECT_EQ(0, active);
	EXPECT_EQ(0, mistakes);

	/*
	 * Children of a process that chose settings inherit the settings, whatever the
	 * default is.
	 */
	ASSERT_EQ(0, hydra_on(3, HYDRA_FILTER_TABLE));
	seen = execute(&active, &mistakes);
	EXPECT_TRUE(same(&wanted, &seen));
	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", "hydra"));
	ASSERT_EQ(0, hydra_off());
	seen = execute(&active, &mistakes);
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, seen.domains);
}

/*
 * A set-uid program has the default settings, or those of its cgroup, not the settings of the
 * calling user.
 */
TEST_F(interface, set_uid_program_has_the_default)
{
	char directory[] = "/tmp/hydra-interface-XXXXXX", path[64], command[256], group[64];
	const struct hydra_settings of_group = { 1, 0, 5, 1 };
	struct hydra_settings seen;
	size_t mistakes = -1;
	uint64_t active = -1;

	ASSERT_NE(NULL, mkdtemp(directory));
	ASSERT_EQ(0, mount("none", directory, "tmpfs", 0, NULL));
	snprintf(path, sizeof(path), "%s/interface", directory);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod 0755 %s", getpid(), path,
		 path);
	ASSERT_EQ(0, system(command));

	seen = execute_program(path, true, &active, &mistakes);
	EXPECT_EQ(HYDRA_SCOPE_NODE, seen.domains)
		TH_LOG("not even without the set-uid bit");
	snprintf(command, sizeof(command), "chmod 04755 %s", path);
	ASSERT_EQ(0, system(command));
	seen = execute_program(path, true, &active, &mistakes);
	EXPECT_EQ(HYDRA_SCOPE_MACHINE, seen.domains);
	EXPECT_EQ(0, active);
	EXPECT_EQ(0, mistakes);
	ASSERT_EQ(0, hydra_make_group(group));
	ASSERT_EQ(0, hydra_write_number(group, "memory.hydra", "hydra,prefetch=5"));
	ASSERT_EQ(0, hydra_write_number(group, "cgroup.procs", "%d", getpid()));
	seen = execute_program(path, true, &active, &mistakes);
	EXPECT_TRUE(same(&of_group, &seen));
	EXPECT_EQ(1, active);
	EXPECT_EQ(0, mistakes);
	EXPECT_EQ(0, hydra_write_number(group, "../cgroup.procs", "%d", getpid()));
	EXPECT_EQ(0, rmdir(group));
	EXPECT_EQ(0, umount(directory));
	EXPECT_EQ(0, rmdir(directory));
}

/* A file on a disk with a file system that can be frozen */
static struct hydra_file freezing;
static char *frozen_page;

static void *write_frozen_page(void *arg)
{
	*frozen_page = 1;
	return NULL;
}

/*
 * A process that holds mmap_lock while a file system is frozen: one thread waits in a
 * fault, with the lock of the VMA. The other thread holds mmap_lock, and waits for the
 * lock of the VMA in mprotect().
 */
static void be_stuck(int ready, int go)
{
	pthread_t thread;
	char c;

	frozen_page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, freezing.fd, 0);
	if (frozen_page == MAP_FAILED || *(volatile char *)frozen_page ||
	    write(ready, "r", 1) != 1 || read(go, &c, 1) != 1 ||
	    pthread_create(&thread, NULL, write_frozen_page, NULL))
		_exit(1);
	usleep(200000);
	_exit(mprotect(frozen_page, PAGE_SIZE, PROT_READ) ? 2 : 0);
}

struct writer {
	pthread_t thread;
	pid_t pid;
	atomic_bool done;
	int err;
};

static void *write_policy(void *arg)
{
	struct writer *w = arg;

	w->err = hydra_write_policy(w->pid, "hydra,prefetch=3");
	atomic_store(&w->done, true);
	return NULL;
}

static bool done_within(struct writer *w, unsigned int ms)
{
	while (ms && !atomic_load(&w->done)) {
		usleep(10000);
		ms -= 10;
	}
	return atomic_load(&w->done);
}

TEST_F_TIMEOUT(interface, stuck_process_delays_no_other, 60)
{
	static struct writer to_stuck, to_other;
	int ready[2], go[2], never[2];
	bool waited, in_time;
	char c;

	ASSERT_EQ(0, hydra_make_file(&freezing, PAGE_SIZE))
		TH_LOG("no disk: needs CONFIG_ZRAM, CONFIG_EXT4_FS and mkfs.ext4");
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(never));
	to_stuck.pid = fork();
	if (!to_stuck.pid)
		be_stuck(ready[1], go[0]);
	to_other.pid = fork();
	if (!to_other.pid) {
		close(never[1]);
		_exit(read(never[0], &c, 1));
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, ioctl(freezing.fd, FIFREEZE, 0));
	ASSERT_EQ(1, write(go[1], "g", 1));
	usleep(1000000);
	ASSERT_EQ(0, pthread_create(&to_stuck.thread, NULL, write_policy, &to_stuck));
	waited = !done_within(&to_stuck, 500);
	ASSERT_EQ(0, pthread_create(&to_other.thread, NULL, write_policy, &to_other));
	in_time = done_within(&to_other, 20000);
	waited &= !atomic_load(&to_stuck.done);
	/* No assertion before: the machine could not go on. */
	EXPECT_EQ(0, ioctl(freezing.fd, FITHAW, 0));
	EXPECT_TRUE(waited)
		TH_LOG("the process was not stuck, so this test says nothing");
	EXPECT_TRUE(in_time);
	pthread_join(to_stuck.thread, NULL);
	pthread_join(to_other.thread, NULL);
	EXPECT_EQ(0, to_other.err);
	/* The stuck process may have ended before the write. */
	EXPECT_TRUE(!to_stuck.err || to_stuck.err == -ESRCH || to_stuck.err == -ENOENT);
	close(never[1]);
	EXPECT_EQ(0, hydra_wait_child(to_stuck.pid));
	EXPECT_EQ(0, hydra_wait_child(to_other.pid));
	EXPECT_EQ(0, hydra_remove_file(&freezing));
}

/* A limit of replicas, of each process or of all. All nodes still read the right contents. */
static void expect_limit(struct __test_metadata *_metadata, const char *path)
{
	ASSERT_EQ(0, hydra_write_file(path, "0"));
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	EXPECT_EQ(0, memory_mistakes());
	EXPECT_LT(0, stats_then.fallbacks);
	EXPECT_EQ(0, stats_then.replica_tables);
	EXPECT_EQ(0, stats_then.replica_kib);
	hydra_assert_consistent();

	/* Memory for two replicas: the process has no more than two. */
	ASSERT_EQ(0, hydra_write_file(path, "8"));
	EXPECT_EQ(0, memory_mistakes());
	EXPECT_GE(8, stats_then.replica_kib);
	hydra_assert_consistent();

	ASSERT_EQ(0, hydra_write_file(path, "max"));
	EXPECT_EQ(0, memory_mistakes());
	EXPECT_LT(8, stats_then.replica_kib);
}

TEST_F(interface, no_replicas_allowed)
{
	expect_limit(_metadata, HYDRA_SYSFS "replica_limit_kib");
}

TEST_F(interface, no_replicas_allowed_for_all_processes)
{
	expect_limit(_metadata, HYDRA_SYSFS "total_limit_kib");
}

/* All processes together have what this one has, and afterwards what they had before. */
TEST_F(interface, replicas_of_all_processes_are_counted)
{
	long before = hydra_number(HYDRA_SYSFS "total_kib", NULL), after;
	int child;

	ASSERT_LE(0, before);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (hydra_on(9, HYDRA_FILTER_TABLE) || memory_mistakes() ||
		    !stats_then.replica_kib)
			_exit(1);
		_exit(hydra_number(HYDRA_SYSFS "total_kib", NULL) < stats_then.replica_kib);
	}
	EXPECT_EQ(0, hydra_wait_child(child));
	after = hydra_number(HYDRA_SYSFS "total_kib", NULL);
	/* If all programs of the machine run under Hydra, theirs come and go. */
	if (!strcmp(self->sysfs_default, "linux\n")) {
		EXPECT_EQ(before, after);
	}
}

TEST_F(interface, bad_limits)
{
	static const char * const bad[] = { "-1", "many", "12k", "max 3", "1 2",
					    "99999999999999999999999" };
	char limit[64];

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_GT(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", bad[i]))
			TH_LOG("replica_limit_kib takes \"%s\"", bad[i]);
		EXPECT_GT(0, hydra_write_file(HYDRA_SYSFS "total_limit_kib", bad[i]))
			TH_LOG("total_limit_kib takes \"%s\"", bad[i]);
	}
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "replica_limit_kib", limit, sizeof(limit)));
	EXPECT_STREQ(self->limit, limit);
	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", "4096\n"));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "replica_limit_kib", limit, sizeof(limit)));
	EXPECT_STREQ("4096\n", limit);
}

TEST_F(interface, domains_are_the_nodes)
{
	char text[4096], cpus[128], expected[128], path[64], *line, *rest;
	int domain, node, count = 0;

	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "domains", text, sizeof(text)));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		ASSERT_EQ(3, sscanf(line, "%d node %d cpus %127s", &domain, &node, cpus))
			TH_LOG("cannot read \"%s\"", line);
		EXPECT_EQ(count, domain);
		EXPECT_EQ(hydra_node_id(count), node);
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		ASSERT_LT(0, hydra_read_file(path, expected, sizeof(expected)));
		expected[strcspn(expected, "\n")] = 0;
		EXPECT_STREQ(expected, cpus);
		count++;
	}
	EXPECT_EQ(hydra_nodes(), count);
}

TEST_F(interface, domain_counters_sum_to_process_counters)
{
	uint64_t fills = 0, tables = 0, kib = 0, upper = 0;

	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	EXPECT_EQ(0, memory_mistakes());
	EXPECT_EQ(hydra_nodes(), stats_then.nr_domains);
	for (int i = 0; i < stats_then.nr_domains; i++) {
		fills += stats_then.domain[i].fills;
		tables += stats_then.domain[i].replica_tables;
		kib += stats_then.domain[i].replica_kib;
		upper += stats_then.domain[i].upper_tables;
		EXPECT_EQ(stats_then.domain[i].replica_tables * 4, stats_then.domain[i].replica_kib);
	}
	EXPECT_LT(0, fills);
	EXPECT_LT(0, tables);
	EXPECT_LT(0, upper);
	EXPECT_EQ(stats_then.fills, fills);
	EXPECT_EQ(stats_then.replica_tables, tables);
	EXPECT_EQ(stats_then.replica_kib, kib);
	EXPECT_EQ(stats_then.upper_tables, upper);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "report"))
		return report();
	return test_harness_run(argc, argv);
}
