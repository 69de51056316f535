// SPDX-License-Identifier: GPL-2.0-only
/* The counters and tracepoints of Hydra have the right numbers and events. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES		32
#define SIZE		(PAGES * PAGE_SIZE)
#define INSTANCE	HYDRA_TRACEFS "/instances/hydra-events"

FIXTURE(events) {
	char *warm, *area;
	int last;
	struct hydra_stats before, after;
};

FIXTURE_SETUP(events)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	self->last = hydra_nodes() - 1;
	self->warm = hydra_reserve(TABLE_SIZE);
	self->area = hydra_reserve(TABLE_SIZE);
	hydra_start_workers(HYDRA_SLEEP);
	/* run all code of the tests once on each node */
	hydra_map(self->warm, PAGES);
	hydra_write_pages(0, self->warm, PAGES, 1);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, hydra_probe_all(self->warm, PAGES, HYDRA_READABLE, 1));
		EXPECT_EQ(0, mprotect(self->warm, SIZE, PROT_READ));
		ASSERT_EQ(0, hydra_read_stats(getpid(), &self->before));
	}
	hydra_map(self->area, PAGES);
	hydra_write_pages(0, self->area, PAGES, 1);
}

FIXTURE_TEARDOWN(events)
{
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
}

#define BEFORE()	ASSERT_EQ(0, hydra_read_stats(getpid(), &self->before))
#define AFTER()		ASSERT_EQ(0, hydra_read_stats(getpid(), &self->after))
#define GROWTH(field)	(self->after.field - self->before.field)

/*
 * The expected number plus stray events: the counters include events of the program's own
 * pages
 */
#define STRAY		2
#define EXPECT_GROWTH(number, field) do {		\
	EXPECT_LE(number, GROWTH(field));		\
	EXPECT_GE((number) + STRAY, GROWTH(field));	\
} while (0)

TEST_F(events, nothing_counted_without_replicas)
{
	ASSERT_EQ(0, hydra_off());
	BEFORE();
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_READ_WRITE, 1));
	EXPECT_EQ(0, mprotect(self->area, SIZE, PROT_READ));
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_READ_ONLY, 1));
	AFTER();
	EXPECT_EQ(0, GROWTH(fills));
	EXPECT_EQ(0, GROWTH(propagated));
	EXPECT_EQ(0, GROWTH(flushes));
	EXPECT_EQ(0, GROWTH(replica_tables));
}

/* Every entry of every replica is changed or removed once, or taken out and put back */
TEST_F(events, propagated_entries)
{
	uint64_t replicas = PAGES * self->last;

	BEFORE();
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_READABLE, 1));
	AFTER();
	EXPECT_GROWTH(replicas, fills);
	EXPECT_GROWTH(self->last, replica_tables);
	EXPECT_GROWTH(0, propagated);

	BEFORE();
	EXPECT_EQ(0, mprotect(self->area, SIZE, PROT_READ));
	AFTER();
	EXPECT_LE(replicas, GROWTH(propagated));
	EXPECT_GE(2 * replicas + STRAY, GROWTH(propagated));
	EXPECT_LE(1, GROWTH(flushes));
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_READ_ONLY, 1));

	BEFORE();
	EXPECT_EQ(0, munmap(self->area, SIZE));
	AFTER();
	EXPECT_GROWTH(replicas, propagated);
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_NO_ACCESS, 0));
}

/* When munmap() frees a table, its replicas are freed, and the counters fall */
TEST_F(events, munmap_frees_replicas)
{
	char *hole = hydra_reserve(4 * TABLE_SIZE);
	char *alone = hole + 2 * TABLE_SIZE;

	ASSERT_EQ(0, munmap(hole, 4 * TABLE_SIZE));
	BEFORE();
	for (int i = 0; i < 4; i++) {
		hydra_map(alone, PAGES);
		hydra_write_pages(0, alone, PAGES, 2);
		EXPECT_EQ(0, hydra_probe_all(alone, PAGES, HYDRA_READ_WRITE, 2));
		AFTER();
		EXPECT_GROWTH(self->last, replica_tables);
		EXPECT_EQ(4 * GROWTH(replica_tables), GROWTH(replica_kib));
		EXPECT_EQ(0, munmap(alone, SIZE));
		AFTER();
		EXPECT_GROWTH(0, replica_tables);
		EXPECT_EQ(4 * GROWTH(replica_tables), GROWTH(replica_kib));
		EXPECT_EQ(0, hydra_probe_all(alone, PAGES, HYDRA_NO_ACCESS, 0));
	}
}

/* Tracepoints */

static int set_events(const char *value)
{
	static const char * const names[] = { "hydra_fill", "hydra_propagate", "hydra_flush" };
	char path[128];
	int err = 0;

	for (int i = 0; i < ARRAY_SIZE(names) && !err; i++) {
		snprintf(path, sizeof(path), INSTANCE "/events/hydra/%s/enable", names[i]);
		err = hydra_write_file(path, value);
		if (err)
			fprintf(stderr, "# %s: %s\n", path, strerror(-err));
	}
	return err;
}

/* Events of one kind caused by the test */
static uint64_t events_seen(const char *event)
{
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512], thread[32];
	uint64_t seen = 0;

	while (f && fgets(line, sizeof(line), f)) {
		struct dirent *task;
		DIR *tasks;

		if (line[0] == '#' || !strstr(line, event))
			continue;
		tasks = opendir("/proc/self/task");
		while (tasks && (task = readdir(tasks))) {
			snprintf(thread, sizeof(thread), "-%.16s ", task->d_name);
			if (task->d_name[0] != '.' && strstr(line, thread)) {
				seen++;
				break;
			}
		}
		if (tasks)
			closedir(tasks);
	}
	if (f)
		fclose(f);
	return seen;
}

TEST_F(events, tracepoints)
{
	struct hydra_stats early, late;

	if (!hydra_has_tracefs())
		SKIP(return, "no " HYDRA_TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_TRUE(!mkdir(INSTANCE, 0700) || errno == EEXIST);

	/* disabled events print nothing */
	close(open(INSTANCE "/trace", O_WRONLY | O_TRUNC));
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES / 2, HYDRA_READABLE, 1));
	EXPECT_EQ(0, events_seen("hydra_"));

	/* switching events on and off causes fills and flushes, too */
	ASSERT_EQ(0, hydra_read_stats(getpid(), &early));
	ASSERT_EQ(0, set_events("1"));
	BEFORE();
	EXPECT_EQ(0, hydra_probe_all(self->area, PAGES, HYDRA_READABLE, 1));
	EXPECT_EQ(0, mprotect(self->area, SIZE, PROT_READ));
	EXPECT_EQ(0, munmap(self->area, SIZE));
	AFTER();
	ASSERT_EQ(0, set_events("0"));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &late));

	EXPECT_LE(PAGES / 2 * self->last, GROWTH(fills));
	EXPECT_LE(GROWTH(fills), events_seen(" hydra_fill:"));
	EXPECT_GE(late.fills - early.fills, events_seen(" hydra_fill:"));
	EXPECT_LE(2, GROWTH(flushes));
	EXPECT_LE(GROWTH(flushes), events_seen(" hydra_flush:"));
	EXPECT_GE(late.flushes - early.flushes, events_seen(" hydra_flush:"));
	EXPECT_LT(0, events_seen(" hydra_propagate:"));
	EXPECT_EQ(0, rmdir(INSTANCE));
}

/* perf and other tools format the raw records: no record may hold a pointer */
TEST_F(events, traces_tell_no_addresses_of_the_kernel)
{
	static const char * const names[] = { "hydra_fill", "hydra_propagate", "hydra_flush" };
	char path[128], text[4096], *field;

	if (!hydra_has_tracefs())
		SKIP(return, "no " HYDRA_TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	for (int i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), HYDRA_TRACEFS "/events/hydra/%s/format", names[i]);
		ASSERT_LT(0, hydra_read_file(path, text, sizeof(text)));
		field = strstr(text, " mm;");
		ASSERT_NE(NULL, field)
			TH_LOG("%s", text);
		EXPECT_EQ(0, strncmp(field - 3, "u64", 3))
			TH_LOG("%s", text);
		/* fields alone: the format of what is printed follows */
		*strstr(text, "print fmt") = 0;
		EXPECT_EQ(NULL, strchr(text, '*'))
			TH_LOG("%s", text);
	}
}

HYDRA_HARNESS_MAIN
