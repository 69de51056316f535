/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program that is to be measured under policy "auto" waits until the policy has decided
 * about it. The policy looks once a second, and in an emulator a second is long: so the program
 * has it look more often, at prices that are as high as the machine is slow.
 *
 * Decisions repeat where the machine counts its time in instructions, and runs one CPU at a time
 * (-icount). Under other policies nothing of this does anything.
 */
#ifndef AUTO_POLICY_H
#define AUTO_POLICY_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* Of an instruction on a real CPU; lab/bench/costs.py has it, too. */
#define REAL_NS 0.33

/* The option --decide, as an argp child. Its input is the uint64_t look_ms, which the option sets. */
extern const struct argp auto_policy_argp;

/*
 * Have the policy look every @look_ms, and scale its prices: they are of a real CPU, and here @cpus
 * CPUs are busy while one executes an instruction. The other threads must wait in user mode.
 * Leaves with a message if a file of the kernel is not as it should be.
 */
void auto_policy_begin(uint64_t cpus, uint64_t look_ms);

/*
 * Has it decided? Then it stays at that, for some looks at least. It has to be asked again and
 * again, as the program goes on. After AUTO_POLICY_LOOKS the answer is yes in any case, and
 * auto_policy_print() tells.
 */
bool auto_policy_decided(void);
#define AUTO_POLICY_LOOKS 100

/* Have the policy look as often as it can, and leaf tables follow a program that moves within half a second. */
void auto_policy_hurry(void);

/*
 * From now on the program sleeps for seconds: have the policy look as often as before the program.
 * Ten looks that find it on one node would be over in a fraction of a second.
 */
void auto_policy_slow_down(void);

/* Note what it has decided until now. All files are as they were before. */
void auto_policy_end(void);

/* Write this into the JSON object that is open, as an object "auto". */
void auto_policy_print(void);

#endif /* AUTO_POLICY_H */
