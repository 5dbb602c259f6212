/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and directory listings. Results are malloc'd; errors are errno values. No state. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

/*
 * Reads a whole regular file, pseudo file or pipe of at most `limit` bytes; `*data` is terminated with one
 * extra NUL. 0, or an errno value: EFBIG when it is longer, EISDIR, ENOENT, … Outputs are written only on
 * success.
 */
int file_read(const char *path, size_t limit, char **data, size_t *len);

/* The names in a directory without "." and "..", sorted by bytes; free with file_list_free. 0 or an errno
 * value. */
int file_list(const char *path, char ***names, size_t *count);

void file_list_free(char **names, size_t count);

#endif
