/* config_file.h - finds and reads the settings: the only place that looks for the file.
 *
 * The file is, in this order: the --config flag, KILN_CONFIG, ./.kiln/kiln.conf,
 * /etc/kiln/kiln.conf; the last two may be missing.  Then the environment (KILN_*) is laid over it;
 * the caller lays its flags over that with kiln_config_set.
 */
#ifndef KILN_CONFIG_FILE_H
#define KILN_CONFIG_FILE_H

#include "schemas/config/config.h"

/* flag_path NULL: no --config.  *ret is new; free with kiln_config_free.  *ret_path (may be NULL)
 * receives the malloc'd path that was read, or NULL if none. */
int kiln_config_load(const char *flag_path, struct kiln_config **ret, char **ret_path,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
