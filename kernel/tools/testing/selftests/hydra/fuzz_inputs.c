// SPDX-License-Identifier: GPL-2.0-only
/* What the interface is given: settings, texts and pointers at random, good and bad ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

/* Random numbers */

static uint64_t random_state;

void begin_random(size_t who, size_t what)
{
	random_state = hydra_word(option.seed + 1, who, what) | 1;
}

uint64_t next_random(void)
{
	return hydra_random(&random_state);
}

uint64_t below(uint64_t limit)
{
	return next_random() % limit;
}

bool one_in(unsigned int n)
{
	return !below(n);
}

/* Settings */

void any_settings(struct hydra_settings *s)
{
	unsigned int style = below(4);

	for (int key = 0; key < KEYS; key++)
		*setting(s, key) = style == 0 && one_in(2) ? next_random() :
				   below(style == 1 ? invalid[key] + 1 : unbuilt[key]);
	if (style == 2)
		*setting(s, below(KEYS)) = one_in(2) ? next_random() : below(12);
}

/* Texts */

static size_t add(char *text, size_t len, const char *more)
{
	strcpy(text + len, more);
	return len + strlen(more);
}

size_t valid_text(char *text)
{
	bool named = below(3), comma = named;
	size_t len = 0;
	int words = below(4) + !named;

	for (unsigned int spaces = one_in(6) ? below(5) : 0; spaces; spaces--)
		text[len++] = " \t\n\v\f\r"[below(6)];
	if (named)
		len = add(text, len, policies[below(2)].name);
	for (; words; words--, comma = true) {
		int key = below(KEYS);

		if (comma)
			len = add(text, len, ",");
		len = add(text, len, keys[key]);
		len = add(text, len, "=");
		if (key == PREFETCH)
			len += sprintf(text + len, "%u", (unsigned int)below(10));
		else
			len = add(text, len, values[key][below(one_in(5) ? invalid[key] :
								 unbuilt[key])]);
	}
	if (one_in(3))
		len = add(text, len, "\n");
	return len;
}

static size_t mutate(char *text, size_t len)
{
	for (unsigned int changes = 1 + below(3); changes; changes--) {
		size_t at = below(len + 1);

		switch (below(8)) {
		case 0:		/* a byte less */
			if (at < len)
				memmove(text + at, text + at + 1, --len - at);
			break;
		case 1:		/* another byte */
			if (at < len)
				text[at] = next_random();
			break;
		case 2:		/* a bit */
			if (at < len)
				text[at] ^= 1 << below(8);
			break;
		case 3:		/* a byte more, often one that means something */
			memmove(text + at + 1, text + at, len++ - at);
			text[at] = one_in(3) ? next_random() : ",=\n \0+-0x9,="[below(12)];
			break;
		case 4:		/* an end */
			len = at;
			break;
		case 5:		/* some of it twice */
			if (2 * len - at < TEXT_MAX + 32) {
				memmove(text + len, text + at, len - at);
				len += len - at;
			}
			break;
		case 6:		/* a number too large, or too long */
			len += sprintf(text + len, ",prefetch=%lu",
				       next_random() >> below(48) << below(16));
			break;
		case 7:		/* the other case */
			if (at < len)
				text[at] ^= 'a' ^ 'A';
			break;
		}
		if (len > TEXT_MAX + 32)
			break;
	}
	return len;
}

/* What has a trap in it */
static size_t tricky_text(char *text)
{
	static const char * const texts[] = {
		"hydra,prefetch=99,prefetch=3", "hydra,filter=nothing,filter=none",
		"hydra,filter=entry,filter=none", "prefetch=3,hydra", "hydra,linux", "hydra,=9",
		"linux,domains=node", "hydra,prefetch=+5", "hydra,prefetch=05", "hydra,prefetch=0x5",
		"hydra,prefetch=5\n,filter=none", "hydra,prefetch=4294967305", "domains=llc,filter=4",
		"hydra,filter=entry,prefetch=10", "hydra,replication=eager,domains=machine", " ", ",",
		"hydra,filter=none=none", "hydra,Filter=none", "hydra,,filter=none", "hydra,",
	};

	return add(text, 0, texts[below(ARRAY_SIZE(texts))]);
}

static size_t soup(char *text)
{
	static const char * const words[] = {
		"linux", "hydra", "domains", "replication", "prefetch", "filter", "machine",
		"node", "llc", "lazy", "eager", "none", "table", "entry", "=", "=", "=", ",", ",",
		",", "9", "10", "-1", " ", "\n", "max",
	};
	size_t len = 0;

	for (unsigned int n = below(10); n; n--)
		len = add(text, len, words[below(ARRAY_SIZE(words))]);
	return len;
}

static size_t long_text(char *text)
{
	/* about the largest text, about a page, more */
	static const size_t about[] = { TEXT_MAX - 2, PAGE_SIZE - 2, HUGE_TEXT - 10 };
	size_t len = valid_text(text), to = about[below(ARRAY_SIZE(about))] + below(6);
	char filling = " ,\0x\n"[below(5)];

	if (one_in(2))
		to = TEXT_MAX - 2 + below(5);
	if (len < to)
		memset(text + len, one_in(2) ? ' ' : filling, to - len);
	return len > to ? len : to;
}

size_t any_text(char *text)
{
	size_t len;

	switch (below(16)) {
	case 0 ... 6:
		return valid_text(text);
	case 7 ... 11:
		return mutate(text, valid_text(text));
	case 12:
		len = below(200);
		for (size_t i = 0; i < len; i++)
			text[i] = next_random();
		return len;
	case 13:
		return soup(text);
	case 14:
		return tricky_text(text);
	default:
		return long_text(text);
	}
}

size_t any_limit(char *text)
{
	switch (below(8)) {
	case 0:
		return add(text, 0, "max") + (one_in(2) ? add(text + 3, 0, "\n") : 0);
	case 1:
		return mutate(text, add(text, 0, "max"));
	case 2:
		return any_text(text);
	case 3:
		return mutate(text, sprintf(text, "%lu", next_random()));
	case 4:		/* too large */
		return sprintf(text, "%lu%lu", (1UL << 54) + next_random(), below(100));
	default:
		return sprintf(text, one_in(8) ? "+%lu\n" : "%lu", next_random() >> below(40));
	}
}

/* Pointers */

char *good_pages, *read_only_page;
static char *beyond_the_file;		/* a mapping of nothing: SIGBUS */
static char *huge_buffer;

void make_pointers(void)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);

	good_pages = (char *)hydra_reserve(TABLE_SIZE) + TABLE_SIZE / 2;
	hydra_map(good_pages, 2);
	read_only_page = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	beyond_the_file = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	huge_buffer = malloc(HUGE_TEXT + 1);
	if (read_only_page == MAP_FAILED || beyond_the_file == MAP_FAILED || !huge_buffer)
		ksft_exit_fail_msg("no memory for the test itself\n");
	close(fd);
}

char *good_pointer(size_t len)
{
	if (len > 2 * PAGE_SIZE)
		return huge_buffer;
	return good_pages + (one_in(2) ? 2 * PAGE_SIZE - len : below(2 * PAGE_SIZE - len + 1));
}

char *bad_pointer(size_t len, bool some)
{
	static const uint64_t nowhere[] = {
		0, 1, PAGE_SIZE, 0x00007fffffffffff, 0x0000800000000000, 0x00007ffffffff000,
		0x8000000000000000, 0xffff800000000000, 0xffff888000000000, 0xffffffff81000000,
		0xffffffffff600000, -PAGE_SIZE, -16UL, -1UL,
	};

	switch (below(some && len > 1 ? 5 : 3)) {
	case 0:
		return (char *)nowhere[below(ARRAY_SIZE(nowhere))];
	case 1:
		return good_pages - PAGE_SIZE + below(PAGE_SIZE / 2);
	case 2:
		return beyond_the_file + below(PAGE_SIZE / 2);
	default:	/* begins well, ends where there is nothing */
		return good_pages + 2 * PAGE_SIZE - 1 -
		       below(len - 1 < PAGE_SIZE ? len - 1 : PAGE_SIZE);
	}
}
