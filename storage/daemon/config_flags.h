/* config_flags.h - command-line flags that are settings: every key is a flag of every program.
 *
 * `--batch-max 8` and `--batch-max=8` set batch_max; `--config FILE` names the file.  Other flags
 * remain, in order, for the program's own parser.  Arguments after `--` are not read.  argv is not
 * changed, so that a daemon can call this again on SIGHUP.
 */
#ifndef KILN_CONFIG_FLAGS_H
#define KILN_CONFIG_FLAGS_H

#include "schemas/config/config.h"

/* Loads the settings of a program (storage/daemon/config_file.h) and lays its flags over them.
 * argv[0] is skipped.  rest: room for argc pointers, receives the arguments that are not settings
 * (borrowed from argv, ended by NULL), *ret_rest their number.  *ret is new; free it with
 * kiln_config_free.  KILN_CONFIG for a bad value, a setting
 * without one, or values that do not suit each other (kiln_config_check). */
int kiln_config_flags(int argc, char *const *argv, const char **rest, int *ret_rest,
                      struct kiln_config **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The same without kiln_config_check, for programs that also do things which need no such settings.
 * ret_path as in kiln_config_load. */
int kiln_config_flags_loose(int argc, char *const *argv, const char **rest, int *ret_rest,
                            struct kiln_config **ret, char **ret_path,
                            struct kiln_error *err) KILN_MUST_CHECK;

/* Applies the flags to settings that the caller has; --config is removed and ignored. */
int kiln_config_flags_lay(int argc, char *const *argv, const char **rest, int *ret_rest,
                          struct kiln_config *config, struct kiln_error *err) KILN_MUST_CHECK;

/* For a program without flags of its own: refuses the first remaining argument, naming the nearest
 * setting. */
int kiln_config_flags_refuse(const char *const *rest, int count,
                             struct kiln_error *err) KILN_MUST_CHECK;

#endif
