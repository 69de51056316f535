// SPDX-License-Identifier: GPL-2.0-only
/* prctl, with any settings, size and pointer: what it takes, and what it writes. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

static uint64_t any_size(void)
{
	static const uint64_t sizes[] = {
		0, 4, 8, 12, 15, 17, 20, 32, PAGE_SIZE, 1UL << 32 | 16, 1UL << 63 | 16, -16UL, -1UL,
	};

	return one_in(4) ? sizes[below(ARRAY_SIZE(sizes))] : sizeof(struct hydra_settings);
}

static void prctl_set(struct way *way, struct subject *self)
{
	uint64_t size = any_size(), arg4 = one_in(8) ? next_random() | 1 : 0;
	uint64_t arg5 = one_in(8) ? 1UL << below(64) : 0;
	struct hydra_settings s;
	unsigned int may = 0;
	enum outcome outcome;
	char *pointer;

	any_settings(&s);
	if (one_in(6)) {
		pointer = bad_pointer(sizeof(s), true);
		may |= MAY(FAULT);
	} else if (one_in(8)) {
		/* may be read; is zeroes: linux, without prefetch or filter */
		pointer = read_only_page;
		memset(&s, 0, sizeof(s));
	} else {
		pointer = good_pointer(sizeof(s));
		memcpy(pointer, &s, sizeof(s));
	}
	if (size != sizeof(s) || arg4 || arg5)
		may |= MAY(INVAL);
	if (!may)
		may = understand_settings(s);
	outcome = judge(way, may, RESULT(prctl(PR_SET_HYDRA, pointer, size, arg4, arg5)),
			"%s at %p, size %#lx, %#lx, %#lx", show(s), pointer, size, arg4, arg5);
	if (outcome == TAKEN)
		self->settings = s;
}

static void prctl_get(struct way *way, struct subject *self)
{
	uint64_t size = any_size(), arg4 = one_in(8) ? next_random() | 1 : 0;
	unsigned int may = 0;
	struct hydra_settings seen;
	char before[PAGE_SIZE], *pointer;
	enum outcome outcome;

	if (one_in(4)) {
		pointer = one_in(4) ? read_only_page : bad_pointer(sizeof(seen), true);
		may |= MAY(FAULT);
	} else {
		/* nothing may be written but the settings */
		pointer = good_pages + 16 + below(PAGE_SIZE - 64);
		memset(good_pages, 0x5a, PAGE_SIZE);
		memcpy(before, good_pages, PAGE_SIZE);
	}
	if (size != sizeof(seen) || arg4)
		may |= MAY(INVAL);
	outcome = judge(way, may ?: MAY(TAKEN),
			RESULT(prctl(PR_GET_HYDRA, pointer, size, arg4, 0)),
			"at %p, size %#lx, %#lx", pointer, size, arg4);
	if (may & MAY(FAULT))
		return;
	if (outcome == TAKEN) {
		memcpy(&seen, pointer, sizeof(seen));
		memcpy(before + (pointer - good_pages), &self->settings, sizeof(seen));
		if (!same(&seen, &self->settings))
			mistake("PR_GET_HYDRA says %s, not %s", show(seen), show(self->settings));
	}
	if (memcmp(before, good_pages, PAGE_SIZE))
		mistake("PR_GET_HYDRA has written more than the settings");
}

static void prctl_other(struct way *way)
{
	static const int numbers[] = {
		PR_SET_HYDRA - 1, PR_GET_HYDRA + 1, PR_SET_HYDRA | 1 << 31, PR_SET_HYDRA ^ 1 << 16,
	};
	struct hydra_settings s = { HYDRA_DOMAINS_NODE };

	judge(way, MAY(INVAL), RESULT(prctl(numbers[below(ARRAY_SIZE(numbers))], &s, sizeof(s))),
	      "a number that is not ours");
}

void fuzz_prctl(void)
{
	struct way set = { "PR_SET_HYDRA", MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(FAULT) };
	struct way get = { "PR_GET_HYDRA", MAY(TAKEN) | MAY(INVAL) | MAY(FAULT) };
	struct way other = { "other prctl", MAY(INVAL) };
	struct subject *self = add_subject("this process", getpid());

	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		prctl_set(&set, self);
		prctl_get(&get, self);
		if (one_in(16))
			prctl_other(&other);
		check_everything();
	}
	account_for(&set);
	account_for(&get);
	account_for(&other);
}
