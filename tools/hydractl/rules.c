// SPDX-License-Identifier: GPL-2.0-only
#include "rules.h"

#include <stddef.h>

#include "kernel.h"

#define PRICE(name) { #name, offsetof(struct hydra_prices, name) }

static const struct {
	const char *name;
	size_t place;
} prices[] = {
	PRICE(interrupt), PRICE(fill), PRICE(change), PRICE(look), PRICE(more), PRICE(flush), PRICE(walk), PRICE(root), PRICE(release),
};

static_assert(sizeof(prices) / sizeof(*prices) * sizeof(u32) == sizeof(struct hydra_prices));

bool kernel_has_auto(void)
{
	autofree char *text = kernel_newer_file("auto/look_ms");

	return text;
}

/* The number in /sys/kernel/mm/hydra/auto/@name, or @usual if the kernel is older. */
static uint64_t number_of(const char *name, uint64_t usual)
{
	autofree char *file = xasprintf("auto/%s", name), *text = kernel_newer_file(file);
	uint64_t number = usual;

	if (text && (!parse_u64(text, &number) || !number || number > UINT32_MAX))
		kernel_unexpected(file, text);
	return number;
}

struct hydra_prices kernel_prices(void)
{
	struct hydra_prices found = HYDRA_PRICES;

	for (size_t i = 0; i < sizeof(prices) / sizeof(*prices); i++) {
		autofree char *name = xasprintf("price_%s", prices[i].name);
		u32 *price = (u32 *)((char *)&found + prices[i].place);

		*price = number_of(name, *price);
	}
	return found;
}

uint64_t kernel_look_ms(void)
{
	return number_of("look_ms", HYDRA_LOOK_MS);
}
