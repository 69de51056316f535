/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands: each takes the command's arguments and returns an exit status. And what most of them include. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <argp.h>
#include <unistd.h>

#include "json.h"
#include "kernel.h"
#include "options.h"
#include "process.h"
#include "table.h"
#include "text.h"

int command_run(int argc, char **argv);
int command_explain(int argc, char **argv);
/* The rest of 'hydractl explain --locks'. */
int explain_locks(double seconds);
int command_why(int argc, char **argv);
int command_set(int argc, char **argv);
int command_off(int argc, char **argv);
int command_default(int argc, char **argv);
int command_allow(int argc, char **argv);
int command_status(int argc, char **argv);
int command_tables(int argc, char **argv);
int command_vm(int argc, char **argv);
int command_check(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);
int command_record(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_export(int argc, char **argv);

#endif /* COMMANDS_H */
