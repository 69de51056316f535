// SPDX-License-Identifier: GPL-2.0-only
#include "miniatures.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct miniature_size miniature_size;

/* What the threads' operations have come to, and what they have to come to. */
static uint64_t found;

static void add(uint64_t *sum, uint64_t value)
{
	__atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

/* A number that looks random, for each number another one. */
static uint64_t mix(uint64_t number)
{
	number += 0x9e3779b97f4a7c15;
	number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
	number = (number ^ number >> 27) * 0x94d049bb133111eb;
	return number ^ number >> 31;
}

static void expect(const char *what, uint64_t seen, uint64_t wanted)
{
	if (seen != wanted)
		error(EXIT_FAILURE, 0, "%s: %ju, and %ju is right", what, (uintmax_t)seen, (uintmax_t)wanted);
}

/* The numbers from *first on below the result are the share's, of all below @all. */
static uint64_t range(const struct share *share, uint64_t all, uint64_t *first)
{
	*first = all * share->part / share->parts;
	return all * (share->part + 1) / share->parts;
}

/* The share's operations of a pass; no pass repeats those of another. */
#define for_each_operation(share, op)							\
	for (uint64_t op = miniature_size.operations * (share)->pass + (share)->part;	\
	     op < miniature_size.operations * ((share)->pass + 1); op += (share)->parts)

#define for_all_operations(op)	\
	for (uint64_t op = 0; op < miniature_size.operations * MINIATURE_PASSES; op++)

static uint64_t words(void)
{
	return miniature_size.bytes / sizeof(uint64_t);
}

/* --- gups: random words of a table are updated ------------------------------------------------------------------ */

static void gups_load(const struct share *share)
{
	uint64_t i, end = range(share, words(), &i);

	for (; i < end; i++)
		miniature_size.data[i] = i;
}

static uint64_t gups_place(uint64_t op)
{
	return mix(op) % words();
}

static void gups_update(const struct share *share)
{
	for_each_operation(share, op)
		add(&miniature_size.data[gups_place(op)], op);
}

/* Each place has a weight of its own, so that an update of a wrong one shows. */
static void gups_check(void)
{
	uint64_t seen = 0, wanted = 0;

	for (uint64_t i = 0; i < words(); i++)
		seen += (miniature_size.data[i] - i) * mix(i);
	for_all_operations(op)
		wanted += op * mix(gups_place(op));
	expect("the updates", seen, wanted);
}

/* --- btree: keys are looked up in an index ---------------------------------------------------------------------- */

#define BRANCHES 16UL
#define LEVELS_MOST 16

static uint64_t *level[LEVELS_MOST];	/* the first keys of what each key of it leads to; the last level has all keys */
static size_t levels;
static uint64_t keys;

/* The levels take one sixteenth more than the keys. */
static void btree_load(const struct share *share)
{
	uint64_t size, step = 1, *next = miniature_size.data;

	(void)share;
	keys = words() * (BRANCHES - 1) / BRANCHES;
	for (levels = 0, size = keys; size > BRANCHES; size = (size + BRANCHES - 1) / BRANCHES)
		levels++;
	levels++;
	for (size_t at = levels; at--; step *= BRANCHES) {
		level[at] = next;
		for (uint64_t i = 0; i * step < keys; i++)
			*next++ = 2 * i * step;
	}
}

/* The place of the largest key that is not beyond @key. */
static uint64_t btree_find(uint64_t key)
{
	uint64_t at = 0, size = 1;

	for (size_t i = levels; i-- > 1;)
		size *= BRANCHES;
	for (size_t i = 0; i < levels; i++, size /= BRANCHES) {
		uint64_t first = at * BRANCHES, end = (keys + size - 1) / size;

		for (at = first; at + 1 < end && at + 1 < first + BRANCHES && level[i][at + 1] <= key; at++)
			;
	}
	return at;
}

static uint64_t btree_key(uint64_t op)
{
	return mix(op) % (2 * keys);
}

static void btree_look_up(const struct share *share)
{
	uint64_t sum = 0;

	for_each_operation(share, op)
		sum += btree_find(btree_key(op));
	add(&found, sum);
}

static void btree_check(void)
{
	uint64_t wanted = 0;

	for_all_operations(op)
		wanted += btree_key(op) / 2;
	expect("the places of the keys", found, wanted);
}

/* --- hashjoin: rows of one table are looked up in a hash table of another one ------------------------------------ */

struct row {
	uint64_t key;		/* plus one; 0: none */
	uint64_t payload;
};

static struct row *rows(void)
{
	return (struct row *)miniature_size.data;
}

static uint64_t row_places(void)
{
	return miniature_size.bytes / sizeof(struct row);
}

/* Half of the places have a row. */
static uint64_t row_count(void)
{
	return row_places() / 2;
}

static uint64_t row_payload(uint64_t key)
{
	return mix(~key);
}

static void hashjoin_load(const struct share *share)
{
	uint64_t key, end = range(share, row_count(), &key), none;

	for (; key < end; key++) {
		uint64_t at = mix(key) % row_places();

		for (none = 0; !__atomic_compare_exchange_n(&rows()[at].key, &none, key + 1, false,
							     __ATOMIC_RELAXED, __ATOMIC_RELAXED); none = 0)
			at = (at + 1) % row_places();
		rows()[at].payload = row_payload(key);
	}
}

/* Every second key has a row. */
static uint64_t hashjoin_key(uint64_t op)
{
	return mix(~op) % (2 * row_count());
}

static void hashjoin_probe(const struct share *share)
{
	uint64_t sum = 0;

	for_each_operation(share, op) {
		uint64_t key = hashjoin_key(op), at = mix(key) % row_places();

		while (rows()[at].key && rows()[at].key != key + 1)
			at = (at + 1) % row_places();
		if (rows()[at].key)
			sum += rows()[at].payload;
	}
	add(&found, sum);
}

static void hashjoin_check(void)
{
	uint64_t wanted = 0;

	for_all_operations(op)
		if (hashjoin_key(op) < row_count())
			wanted += row_payload(hashjoin_key(op));
	expect("the joined rows", found, wanted);
}

/* --- xsbench: an energy is looked up in a grid, then cross sections of five nuclides there ------------------------ */

#define NUCLIDES 5UL

static uint64_t grid(void)
{
	return words() / (1 + NUCLIDES);
}

static uint64_t *cross_section(uint64_t at, uint64_t nuclide)
{
	return &miniature_size.data[grid() * (1 + nuclide) + at];
}

static void xsbench_load(const struct share *share)
{
	uint64_t i, end = range(share, grid(), &i);

	for (; i < end; i++) {
		miniature_size.data[i] = 3 * i;
		for (uint64_t nuclide = 0; nuclide < NUCLIDES; nuclide++)
			*cross_section(i, nuclide) = mix(i * NUCLIDES + nuclide);
	}
}

static uint64_t xsbench_energy(uint64_t op)
{
	return mix(op) % (3 * grid());
}

static void xsbench_look_up(const struct share *share)
{
	uint64_t sum = 0;

	for_each_operation(share, op) {
		uint64_t energy = xsbench_energy(op), low = 0, high = grid();

		while (high - low > 1) {
			uint64_t middle = low + (high - low) / 2;

			if (miniature_size.data[middle] <= energy)
				low = middle;
			else
				high = middle;
		}
		for (uint64_t nuclide = 0; nuclide < NUCLIDES; nuclide++)
			sum += *cross_section(low, nuclide);
	}
	add(&found, sum);
}

static void xsbench_check(void)
{
	uint64_t wanted = 0;

	for_all_operations(op)
		for (uint64_t nuclide = 0; nuclide < NUCLIDES; nuclide++)
			wanted += mix(xsbench_energy(op) / 3 * NUCLIDES + nuclide);
	expect("the cross sections", found, wanted);
}

/* --- canneal: two elements change places if their nets get no longer by much -------------------------------------- */

#define NETS 3UL
#define TAKEN UINT64_MAX

struct element {
	uint64_t place;		/* TAKEN: a thread is changing it */
	struct element *net[NETS];
};

static struct element *elements(void)
{
	return (struct element *)miniature_size.data;
}

static uint64_t element_count(void)
{
	return miniature_size.bytes / sizeof(struct element);
}

static void canneal_load(const struct share *share)
{
	uint64_t i, end = range(share, element_count(), &i);

	for (; i < end; i++) {
		elements()[i].place = i;
		for (uint64_t net = 0; net < NETS; net++)
			elements()[i].net[net] = &elements()[mix(i * NETS + net) % element_count()];
	}
}

static uint64_t take(struct element *element)
{
	uint64_t place;

	do
		place = __atomic_exchange_n(&element->place, TAKEN, __ATOMIC_ACQUIRE);
	while (place == TAKEN);
	return place;
}

static uint64_t length_at(const struct element *element, uint64_t place)
{
	uint64_t sum = 0;

	for (uint64_t net = 0; net < NETS; net++) {
		uint64_t other = __atomic_load_n(&element->net[net]->place, __ATOMIC_RELAXED);

		sum += other == TAKEN ? 0 : other > place ? other - place : place - other;
	}
	return sum;
}

/* The one with the lower address is taken first, so that no two threads wait for each other. */
static void change_places(struct element *first, struct element *second)
{
	uint64_t of_first = take(first), of_second = take(second), before, after;

	before = length_at(first, of_first) + length_at(second, of_second);
	after = length_at(first, of_second) + length_at(second, of_first);
	if (after < before + element_count() / 4) {
		uint64_t place = of_first;

		of_first = of_second;
		of_second = place;
	}
	__atomic_store_n(&second->place, of_second, __ATOMIC_RELEASE);
	__atomic_store_n(&first->place, of_first, __ATOMIC_RELEASE);
}

static void canneal_swap(const struct share *share)
{
	for_each_operation(share, op) {
		uint64_t one = mix(op) % element_count(), other = mix(~op) % element_count();

		if (one < other)
			change_places(&elements()[one], &elements()[other]);
		else if (one > other)
			change_places(&elements()[other], &elements()[one]);
	}
}

/* Each place has an element still, and many have another one. */
static void canneal_check(void)
{
	uint64_t seen = 0, wanted = 0, moved = 0;

	for (uint64_t i = 0; i < element_count(); i++) {
		seen += mix(elements()[i].place);
		wanted += mix(i);
		moved += elements()[i].place != i;
	}
	expect("the places", seen, wanted);
	if (!moved)
		error(EXIT_FAILURE, 0, "no element has moved");
}

/* --- pagerank: the new rank of a vertex is made of the old ranks of those that link to it ------------------------- */

#define LINKS 8UL

static uint64_t vertices(void)
{
	return words() / (LINKS + 2);
}

static uint64_t *old_rank(uint64_t vertex)
{
	return &miniature_size.data[vertex];
}

static uint64_t *new_rank(uint64_t vertex)
{
	return &miniature_size.data[vertices() + vertex];
}

static uint64_t *link_of(uint64_t vertex, uint64_t number)
{
	return &miniature_size.data[2 * vertices() + vertex * LINKS + number];
}

static uint64_t linking(uint64_t vertex, uint64_t number)
{
	return mix(vertex * LINKS + number) % vertices();
}

static void pagerank_load(const struct share *share)
{
	uint64_t i, end = range(share, vertices(), &i);

	for (; i < end; i++) {
		*old_rank(i) = mix(i);
		*new_rank(i) = 0;
		for (uint64_t number = 0; number < LINKS; number++)
			*link_of(i, number) = linking(i, number);
	}
}

/* As many vertices as there are operations, at even distances; both passes have the same. */
static uint64_t vertex_of(uint64_t op)
{
	return op % miniature_size.operations * vertices() / miniature_size.operations;
}

static void pagerank_iterate(const struct share *share)
{
	uint64_t op, end = range(share, miniature_size.operations, &op);

	for (; op < end; op++) {
		uint64_t vertex = vertex_of(op), sum = 0;

		for (uint64_t number = 0; number < LINKS; number++)
			sum += *old_rank(*link_of(vertex, number));
		*new_rank(vertex) = sum;
	}
}

static void pagerank_check(void)
{
	for (uint64_t op = 0; op < miniature_size.operations; op++) {
		uint64_t wanted = 0;

		for (uint64_t number = 0; number < LINKS; number++)
			wanted += mix(linking(vertex_of(op), number));
		expect("a rank", *new_rank(vertex_of(op)), wanted);
	}
}

/* --- wordcount: threads map words to lists for each other, and each counts the words of its lists ----------------- */

#define THREADS_MOST 512UL
#define VOCABULARY 4096UL

struct block {
	struct block *last;
	size_t used;
	uint64_t word[];
};

static struct block *lists[THREADS_MOST][THREADS_MOST];	/* by the thread that maps, and the one that reduces */
static uint64_t counted[VOCABULARY];
static uint64_t maps;

uint64_t miniature_maps(void)
{
	return maps;
}

static uint64_t word_at(uint64_t place)
{
	return mix(place) % VOCABULARY;
}

static void wordcount_load(const struct share *share)
{
	uint64_t i, end = range(share, words(), &i);

	for (; i < end; i++)
		miniature_size.data[i] = word_at(i);
}

static struct block *map_block(struct block *last)
{
	struct block *made = mmap(NULL, miniature_size.block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		error(EXIT_FAILURE, errno, "cannot map a block of %zu bytes", miniature_size.block);
	made->last = last;
	add(&maps, 1);
	return made;
}

static bool is_full(const struct block *block)
{
	return (block->used + 1) * sizeof(*block->word) > miniature_size.block - sizeof(*block);
}

/* Words of the whole text, as many as there are operations, at even distances. */
static uint64_t place_of(uint64_t op)
{
	return op * words() / (miniature_size.operations * MINIATURE_PASSES);
}

static void wordcount_map(const struct share *share)
{
	uint64_t i, end = range(share, miniature_size.operations, &i);

	for (; i < end; i++) {
		uint64_t word = miniature_size.data[place_of(miniature_size.operations * share->pass + i)];
		struct block **list = &lists[share->part][word % share->parts];

		if (!*list || is_full(*list))
			*list = map_block(*list);
		(*list)->word[(*list)->used++] = word;
	}
}

static void wordcount_reduce(const struct share *share)
{
	for (size_t other = 0; other < share->parts; other++)
		for (const struct block *block = lists[other][share->part]; block; block = block->last)
			for (size_t i = 0; i < block->used; i++)
				counted[block->word[i]]++;
}

static void wordcount_free(const struct share *share)
{
	for (size_t other = 0; other < share->parts; other++)
		for (struct block *block = lists[share->part][other], *last; block; block = last) {
			last = block->last;
			if (munmap(block, miniature_size.block))
				error(EXIT_FAILURE, errno, "munmap");
			lists[share->part][other] = NULL;
		}
}

static void wordcount_check(void)
{
	uint64_t seen = 0, wanted = 0;

	for (uint64_t word = 0; word < VOCABULARY; word++)
		seen += counted[word] * mix(word);
	for_all_operations(op)
		wanted += mix(word_at(place_of(op)));
	expect("the counted words", seen, wanted);
}

/* --- dedup: a thread copies chunks to buffers, the next one looks for equal chunks, the one after that unmaps --------- */

#define CHUNKS_MOST 65536UL

static void *buffers[CHUNKS_MOST];
static uint64_t digests[2 * CHUNKS_MOST];	/* of different chunks; 0: none */
static uint64_t different;

static uint64_t chunk_words(void)
{
	return miniature_size.block / sizeof(uint64_t);
}

static uint64_t chunks(void)
{
	uint64_t all = miniature_size.bytes / miniature_size.block;

	return all < CHUNKS_MOST ? all : CHUNKS_MOST;
}

/* Two chunks are equal to each other, and to no third one. */
static uint64_t chunk_word(uint64_t chunk, uint64_t word)
{
	return mix(chunk / 2 * chunk_words() + word);
}

static void dedup_load(const struct share *share)
{
	uint64_t chunk, end = range(share, chunks(), &chunk);

	for (; chunk < end; chunk++)
		for (uint64_t word = 0; word < chunk_words(); word++)
			miniature_size.data[chunk * chunk_words() + word] = chunk_word(chunk, word);
}

static void dedup_copy(const struct share *share)
{
	for (uint64_t chunk = share->part; chunk < chunks(); chunk += share->parts) {
		buffers[chunk] = map_block(NULL);
		memcpy(buffers[chunk], &miniature_size.data[chunk * chunk_words()], miniature_size.block);
	}
}

static bool is_new(uint64_t digest)
{
	for (uint64_t at = digest % (2 * CHUNKS_MOST);; at = (at + 1) % (2 * CHUNKS_MOST)) {
		uint64_t there = 0;

		if (__atomic_compare_exchange_n(&digests[at], &there, digest, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
		if (there == digest)
			return false;
	}
}

static void dedup_find(const struct share *share)
{
	for (uint64_t chunk = (share->part + 1) % share->parts; chunk < chunks(); chunk += share->parts) {
		const uint64_t *word = buffers[chunk];
		uint64_t digest = 0;

		for (uint64_t i = 0; i < chunk_words(); i++)
			digest = mix(digest ^ word[i]);
		add(&different, is_new(digest));
	}
}

static void dedup_unmap(const struct share *share)
{
	for (uint64_t chunk = (share->part + 2) % share->parts; chunk < chunks(); chunk += share->parts)
		if (munmap(buffers[chunk], miniature_size.block))
			error(EXIT_FAILURE, errno, "munmap");
}

static void dedup_check(void)
{
	expect("the different chunks", different, (chunks() + 1) / 2);
}

const struct miniature miniatures[] = {
	{ "gups", "random words of a table are updated", false, gups_load, { gups_update }, gups_check },
	{ "btree", "keys are looked up in an index", true, btree_load, { btree_look_up }, btree_check },
	{ "hashjoin", "rows are looked up in a hash table", false, hashjoin_load, { hashjoin_probe }, hashjoin_check },
	{ "xsbench", "cross sections at an energy are looked up", false, xsbench_load, { xsbench_look_up }, xsbench_check },
	{ "canneal", "elements that pointers connect change places", true, canneal_load, { canneal_swap }, canneal_check },
	{ "pagerank", "ranks are summed along links", false, pagerank_load, { pagerank_iterate }, pagerank_check },
	{ "wordcount", "words are mapped to lists and counted", false, wordcount_load, { wordcount_map, wordcount_reduce, wordcount_free },
	  wordcount_check },
	{ "dedup", "chunks are copied, compared and unmapped by one thread after the other", false, dedup_load,
	  { dedup_copy, dedup_find, dedup_unmap }, dedup_check },
	{ 0 }
};
