/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings by name: the environment first, else the entry of the same name (dots lead into tables) in the
 * first TOML file that exists of $NIXL_CONFIG_FILE, $HOME/.nixl.cfg and /etc/nixl.cfg. The file is read once
 * a process; one that cannot be read or parsed fails every lookup that the environment does not answer, and
 * no other file is tried instead.
 *
 * Getters give `fallback` when the name is set nowhere, and fail with words (variable, or file and line and
 * key) when it is set to something else than the type, default or not: NIXL_ERR_INVALID_PARAM for a bad
 * value, NIXL_ERR_BACKEND for a file that cannot be read. TOML types are strict: "5" in quotes is no integer.
 * `out` is written on success only. Safe from any thread. Part of libnixl only; a plugin asks its host.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <nixl/nixl.h>

#include <stdbool.h>
#include <stdint.h>

nixl_status_t config_get_bool(const char *key, bool fallback, bool *out);
nixl_status_t config_get_int(const char *key, int64_t fallback, int64_t *out);
nixl_status_t config_get_uint(const char *key, uint64_t fallback, uint64_t *out);

/* As uint, and the result must lie in min..max (the fallback is not checked). */
nixl_status_t config_get_uint_range(const char *key, uint64_t fallback, uint64_t min, uint64_t max,
                                    uint64_t *out);

/* A malloc'd copy for the caller to free; a NULL fallback gives NULL. */
nixl_status_t config_get_string(const char *key, const char *fallback, char **out);

/* A plain number is milliseconds; text may carry a unit: "250us", "1.5s". Rounded up to whole milliseconds.
 */
nixl_status_t config_get_duration_ms(const char *key, uint64_t fallback_ms, uint64_t *out_ms);

/*
 * The setting as text whatever its type (numbers in decimal, booleans as true and false), a malloc'd copy,
 * NULL when it is set nowhere; arrays and tables are refused. For callers that parse by a table of their own.
 * `where` (may be NULL) gets a malloc'd "environment variable X" or "file:line: X".
 */
nixl_status_t config_get_raw(const char *key, char **out, char **where);

/* True when the key is set somewhere; false also when the file is broken. */
bool config_has(const char *key);

/* The file in use, a malloc'd copy, NULL for none. */
nixl_status_t config_file(char **out);

/* Forgets the file, so that the next lookup reads it again. For tests and for tools that change the
 * environment. */
void config_reload(void);

#endif
