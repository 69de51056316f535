/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PLACES_H
#define PLACES_H

#include <stdbool.h>

/*
 * Write into the JSON object that is open what tells near page walks from far ones: lists
 * "map", of where the leaf tables of this process are, and "domains". @cores: each core is a
 * domain. Leaves with a message if this kernel has no Hydra.
 */
void print_places(bool cores);

#endif /* PLACES_H */
