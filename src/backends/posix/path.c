/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mode string of files registered by path: `ro` or `rw`, then `,direct` `,sync` `,noatime` `,create` in
 * any order, a colon, the path (which may hold colons). Everything else names no file: the descriptor is in
 * `dev`. A text that is meant to be a mode string and is mistyped is told from a plain path by its head.
 */
#include "posix.h"

#include "base/text.h"

#include <fcntl.h>

static bool head_is_meant(struct text head, bool has_comma) {
    struct text first = head;
    size_t i;

    for (i = 0; i < head.len; i++) {
        if (head.at[i] == '/') {
            return false; /* "/data/rw:1" is a path */
        }
    }
    for (i = 0; i < head.len && head.at[i] != ','; i++) {
    }
    first.len = i;
    if (first.len < 2 || first.at[0] != 'r' || (first.at[1] != 'o' && first.at[1] != 'w')) {
        return false;
    }
    /* "rww:/x" is a slip of "rw:/x"; "rocksdb:/x" is somebody's own text. */
    return first.len <= 4 || has_comma;
}

enum posix_path_kind posix_path_parse(const char *text, size_t len, struct posix_path_mode *mode, char *why,
                                      size_t why_size) {
    static const struct {
        const char *word;
        int flag;
    } words[] = {{"direct", O_DIRECT}, {"sync", O_SYNC}, {"noatime", O_NOATIME}, {"create", O_CREAT}};
    const char *colon = len != 0 ? memchr(text, ':', len) : NULL;
    struct text head = {.at = text, .len = colon != NULL ? (size_t)(colon - text) : len};
    bool has_comma = head.len != 0 && memchr(head.at, ',', head.len) != NULL;
    struct text rest = head, word;
    char quoted[80];
    size_t at = 0;
    int flags = 0;
    bool is_first = true;

    if ((colon == NULL && !has_comma) || !head_is_meant(head, has_comma)) {
        return POSIX_PATH_PLAIN;
    }
    while (text_split(&rest, ',', &word)) {
        size_t i;

        if (is_first) {
            is_first = false;
            if (!text_equal(word, "ro") && !text_equal(word, "rw")) {
                text_append(why, why_size, &at, "%s: a mode string begins with ro or rw",
                            text_quote(quoted, sizeof quoted, head.at, head.len));
                return POSIX_PATH_BAD;
            }
            flags = text_equal(word, "ro") ? O_RDONLY : O_RDWR;
            continue;
        }
        for (i = 0; i < sizeof words / sizeof words[0] && !text_equal(word, words[i].word); i++) {
        }
        if (i == sizeof words / sizeof words[0]) {
            text_append(why, why_size, &at, "%s in a mode string: known are direct, sync, noatime, create",
                        text_quote(quoted, sizeof quoted, word.at, word.len));
            return POSIX_PATH_BAD;
        }
        flags |= words[i].flag;
    }
    if (colon == NULL || colon + 1 == text + len) {
        text_append(why, why_size, &at, "%s: no path after the mode",
                    text_quote(quoted, sizeof quoted, text, len));
        return POSIX_PATH_BAD;
    }
    mode->flags = flags;
    mode->path = colon + 1;
    mode->path_len = len - (size_t)(colon + 1 - text);
    return POSIX_PATH_MODE;
}
