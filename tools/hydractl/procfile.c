// SPDX-License-Identifier: GPL-2.0-only
#include "procfile.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

bool parse_u64(const char *text, uint64_t *value)
{
	unsigned long long number;

	/* strtoull() would take spaces and signs too. */
	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	number = strtoull(text, NULL, 10);
	if (errno)
		return false;
	*value = number;
	return true;
}

bool parse_s64(const char *text, int64_t *value)
{
	bool negative = *text == '-';
	uint64_t number;

	if (!parse_u64(text + negative, &number) || number > INT64_MAX)
		return false;
	*value = negative ? -(int64_t)number : (int64_t)number;
	return true;
}

char *file_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, '\0', file) < 0) {
		int saved = ferror(file) ? errno : 0;

		free(text);
		text = saved ? NULL : strdup("");
		errno = saved;
	}
	fclose(file);
	return text;
}

bool file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return written;
}

bool file_replace(const char *path, const char *text, size_t size)
{
	autofree char *name = xasprintf("%s.XXXXXX", path);
	sigset_t all, before;
	bool made, good;
	int saved, fd;
	FILE *file;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	fd = mkstemp(name);
	made = fd >= 0;
	file = made ? must_have(fdopen(fd, "w")) : NULL;
	good = made && fwrite(text, 1, size, file) == size && !fchmod(fd, 0644);
	if (made && fclose(file))
		good = false;
	good = good && !rename(name, path);
	saved = errno;
	if (made && !good)
		unlink(name);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return good;
}

bool record_parse(struct record *record, char *line, const char *first_key)
{
	char *save, *word = strtok_r(line, " \t", &save);
	const char *key = first_key;

	record->count = 0;
	/* A list may be empty, so the last value may be missing. */
	while (word || (key && key != first_key)) {
		if (!key) {
			key = word;
		} else if (record->count == RECORD_PAIRS) {
			errno = EBADMSG;
			return false;
		} else {
			record->pair[record->count].key = key;
			record->pair[record->count++].value = word ?: "";
			key = NULL;
		}
		word = word ? strtok_r(NULL, " \t", &save) : NULL;
	}
	return true;
}

bool records_parse(struct records *records, char *text, const char *first_key)
{
	size_t lines = 1;
	char *save, *line;

	for (line = text; *line; line++)
		lines += *line == '\n';
	records->text = text;
	records->count = 0;
	records->record = must_have(calloc(lines, sizeof(*records->record)));
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct record *record = &records->record[records->count];

		if (!record_parse(record, line, first_key)) {
			records_free(records);
			return false;
		}
		if (record->count)
			records->count++;
	}
	return true;
}

void records_free(struct records *records)
{
	free(records->record);
	free(records->text);
	*records = (struct records){ 0 };
}

const char *record_get(const struct record *record, const char *key)
{
	for (size_t i = 0; i < record->count; i++)
		if (!strcmp(record->pair[i].key, key))
			return record->pair[i].value;
	return NULL;
}

bool record_get_u64(const struct record *record, const char *key, uint64_t *value)
{
	const char *text = record_get(record, key);

	return text && parse_u64(text, value);
}

const char *records_get(const struct records *records, const char *key)
{
	for (size_t i = 0; i < records->count; i++)
		if (records->record[i].count == 1 && !strcmp(records->record[i].pair[0].key, key))
			return records->record[i].pair[0].value;
	return NULL;
}
