/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regions of one owner. Per kind they stand sorted by (dev, addr, len) in chunks of up to 128, so that
 * adding or removing one moves a small piece of memory whatever the order of calls. A look-up is two searches
 * without unpredictable branches, over the chunks' first keys and within a chunk. `reach` holds the furthest
 * end so far, so that a region under which others are nested is found without a walk over all of them. Not
 * locked: the owner's tables lock guards a set.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK 128       /* entries of a chunk; a power of two */
#define CHUNK_LOW 32    /* a chunk below that joins a neighbour */
#define CHUNK_JOINED 96 /* if the two together have no more than that */
#define SPARES_KEPT 2   /* empty chunks kept after an addition */
#define SLOTS_MAX (DLIST_JOINS - 1u)
#define NO_SLOT UINT32_MAX

/* Keys of unused places are all ones, so that a search may run over the whole chunk. */
struct region_chunk {
    uint64_t addr[CHUNK];
    uint64_t dev[CHUNK];
    uint64_t reach[CHUNK]; /* furthest end among entries 0..i with entry i's dev */
    struct region *region[CHUNK];
    uint32_t count;
    struct region_chunk *next_spare;
};

struct region_index {
    size_t count; /* regions */
    size_t chunk_count, chunk_cap;
    uint64_t *first_addr, *first_dev; /* key of each chunk's first entry */
    uint64_t *last_reach;             /* reach of each chunk's last entry */
    struct region_chunk **chunks;
    struct region_chunk *spares;
    size_t spare_count;
    bool one_dev; /* all entries have the same dev */
};

/* Place of an entry. */
struct place {
    size_t chunk;
    uint32_t at;
};

static uint64_t sum_or_max(uint64_t a, uint64_t b) {
    uint64_t sum = a + b;

    return sum < a ? UINT64_MAX : sum;
}

static uint64_t region_end(const struct region *region) {
    return sum_or_max(region->addr, region->len);
}

/* ---- one region ---- */

struct region *region_new(nixl_mem_t mem, const struct nixl_desc *desc, uint32_t backends) {
    size_t keys = (size_t)__builtin_popcount(backends);
    struct region *region = malloc(sizeof *region + keys * sizeof region->keys[0]);

    if (region == NULL) {
        return NULL;
    }
    memset(region, 0, sizeof *region + keys * sizeof region->keys[0]);
    region->addr = desc->addr;
    region->len = desc->len == 0 && mem_is_storage(mem) ? UINT64_MAX : desc->len;
    region->dev = desc->dev;
    region->refs = 1;
    region->mem = (uint8_t)mem;
    region->backends = (uint16_t)backends;
    region->id.slot = NO_SLOT;
    return region;
}

void region_free(struct region *region) {
    free(region);
}

/* ---- searches ---- */

/* A condition that is as often true as not: compilers make it a conditional move instead of a branch. */
#define UNFORESEEN(condition) __builtin_expect_with_probability((condition), 1, 0.5)

static inline bool key_le(uint64_t dev_a, uint64_t addr_a, uint64_t dev_b, uint64_t addr_b) {
    return (dev_a < dev_b) | ((dev_a == dev_b) & (addr_a <= addr_b));
}

/* The last chunk whose first key is at or below (dev, addr); the first one when there is none. */
static inline size_t chunk_find(const struct region_index *index, uint64_t dev, uint64_t addr) {
    size_t base = 0;
    size_t left = index->chunk_count;
    size_t half;

    if (index->one_dev) {
        const uint64_t *at = index->first_addr;

        while (left > 1) {
            half = left / 2;
            at = UNFORESEEN(at[half] <= addr) ? at + half : at;
            left -= half;
        }
        return (size_t)(at - index->first_addr);
    }
    while (left > 1) {
        half = left / 2;
        base += half & (0 - (size_t)key_le(index->first_dev[base + half], index->first_addr[base + half], dev,
                                           addr));
        left -= half;
    }
    return base;
}

/* The last entry at or below (dev, addr); the first one when there is none. */
static inline uint32_t entry_find(const struct region_chunk *chunk, bool one_dev, uint64_t dev,
                                  uint64_t addr) {
    uint32_t step = chunk->count > 1 ? 1u << (31 - __builtin_clz(chunk->count - 1)) : 0;
    uint32_t base = 0;

    if (one_dev) {
        const uint64_t *at = chunk->addr;

        for (; step != 0; step /= 2) {
            at = UNFORESEEN(at[step] <= addr) ? at + step : at;
        }
        base = (uint32_t)(at - chunk->addr);
    } else {
        for (; step != 0; step /= 2) {
            base +=
                step & (0 - (uint32_t)key_le(chunk->dev[base + step], chunk->addr[base + step], dev, addr));
        }
    }
    return base < chunk->count ? base : chunk->count - 1;
}

/* The last entry at or below (dev, addr). False when all are above. */
static bool place_find(const struct region_index *index, uint64_t dev, uint64_t addr, struct place *place) {
    const struct region_chunk *chunk;

    if (index == NULL || index->count == 0) {
        return false;
    }
    place->chunk = chunk_find(index, dev, addr);
    chunk = index->chunks[place->chunk];
    if (!key_le(chunk->dev[0], chunk->addr[0], dev, addr)) {
        return false;
    }
    place->at = entry_find(chunk, index->one_dev && chunk->dev[0] == dev, dev, addr);
    return true;
}

/* One entry back; false at the beginning. */
static bool place_back(const struct region_index *index, struct place *place) {
    if (place->at > 0) {
        place->at--;
        return true;
    }
    if (place->chunk == 0) {
        return false;
    }
    place->chunk--;
    place->at = index->chunks[place->chunk]->count - 1;
    return true;
}

static struct region *place_region(const struct region_index *index, const struct place *place) {
    return index->chunks[place->chunk]->region[place->at];
}

/*
 * Among the entries from `place` back, with the same dev, one that ends at or after `end` and has the
 * backends. Only stretches whose reach says that there is one are walked.
 */
static struct region *cover_back(const struct region_index *index, struct place place,
                                 const struct nixl_desc *desc, uint32_t want) {
    uint64_t end = sum_or_max(desc->addr, desc->len);
    uint64_t dev = desc->dev;
    size_t c = place.chunk;
    uint32_t at = place.at;

#ifdef BREAK_5
    return NULL;
#endif
    for (;;) {
        const struct region_chunk *chunk = index->chunks[c];

        for (;;) {
            struct region *region = chunk->region[at];

            if (chunk->dev[at] != dev) {
                return NULL;
            }
            if (chunk->reach[at] < end) {
                break;
            }
            if (region_holds(region, desc) && (region->backends & want) == want) {
                return region;
            }
            if (at == 0) {
                break;
            }
            at--;
        }
        do {
            if (c == 0 || index->first_dev[c] != dev) {
                return NULL;
            }
            c--;
        } while (index->last_reach[c] < end);
        at = index->chunks[c]->count - 1;
    }
}

/* The next region in order, if it holds the block: lists often go through the regions one by one. One branch,
 * for those that do not. */
static inline struct region *cover_next(const struct nixl_desc *desc, uint32_t want,
                                        struct region_hint *hint) {
    const struct region_chunk *chunk = hint->chunk;
    struct region *region;

    if (chunk != NULL && hint->at + 2 < chunk->count &&
        ((chunk->addr[hint->at + 1] <= desc->addr) & (desc->addr < chunk->addr[hint->at + 2]))) {
        region = chunk->region[hint->at + 1];
        if (region_holds(region, desc) && (region->backends & want) == want) {
            hint->at++;
            hint->last = region;
            return region;
        }
    }
    return NULL;
}

/* By the search. */
static struct region *cover_search(const struct region_index *index, const struct nixl_desc *desc,
                                   uint32_t want, struct region_hint *hint) {
    const struct region_chunk *chunk;
    struct region *region;
    struct place place;

    if (!place_find(index, desc->dev, desc->addr, &place)) {
        return NULL;
    }
    chunk = index->chunks[place.chunk];
    region = chunk->region[place.at];
    if (__builtin_expect(!region_holds(region, desc) || (region->backends & want) != want, 0)) {
        region = cover_back(index, place, desc, want);
        if (region == NULL) {
            return NULL;
        }
        chunk = NULL;
    }
    *hint = (struct region_hint){.last = region, .chunk = chunk, .at = place.at};
    return region;
}

struct region *region_set_cover(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                uint32_t want, struct region_hint *hint) {
    struct region *region = hint->last;

    if (region != NULL && region_holds(region, desc) && (region->backends & want) == want) {
        return region;
    }
    region = cover_next(desc, want, hint);
    return region != NULL ? region : cover_search(set->kinds[mem], desc, want, hint);
}

/*
 * Looks several blocks up side by side. Each search is a chain of loads that wait for one another, but the
 * chains of different blocks do not, so the processor runs them together.
 */
static void cover_many(const struct region_index *index, const unsigned char *items, size_t step,
                       size_t count, uint32_t want, struct region **found) {
    struct nixl_desc descs[REGION_AHEAD];
    const struct region_chunk *chunks[REGION_AHEAD];

    for (size_t i = 0; i < count; i++) {
        memcpy(&descs[i], items + i * step, sizeof descs[i]);
        chunks[i] = index->chunks[chunk_find(index, descs[i].dev, descs[i].addr)];
    }
    for (size_t i = 0; i < count; i++) {
        bool one_dev = index->one_dev && chunks[i]->dev[0] == descs[i].dev;

        found[i] = chunks[i]->region[entry_find(chunks[i], one_dev, descs[i].dev, descs[i].addr)];
        __builtin_prefetch(found[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (!region_holds(found[i], &descs[i]) || (found[i]->backends & want) != want) {
            struct region_hint hint = {0};

            found[i] = cover_search(index, &descs[i], want, &hint);
        }
    }
}

struct region *region_walk_find(struct region_walk *walk, const struct nixl_desc *desc,
                                const unsigned char *items, size_t step, size_t index, size_t count) {
    const struct region_index *regions = walk->set->kinds[walk->mem];
    struct region *region;

    if (index - walk->ahead_first < walk->ahead_count) {
        region = walk->ahead[index - walk->ahead_first];
        walk->hint = (struct region_hint){.last = region};
        walk->next_miss = index + 1;
        return region;
    }
    region = cover_next(desc, walk->want, &walk->hint);
    if (region != NULL) {
        walk->misses = 0;
        return region;
    }
    walk->misses = index == walk->next_miss ? walk->misses + 1 : 0;
    walk->next_miss = index + 1;
    if (walk->misses < REGION_AHEAD_AFTER || regions == NULL || regions->count == 0) {
        return cover_search(regions, desc, walk->want, &walk->hint);
    }
    walk->ahead_first = index;
    walk->ahead_count = count - index < REGION_AHEAD ? count - index : REGION_AHEAD;
    cover_many(regions, items + index * step, step, walk->ahead_count, walk->want, walk->ahead);
    walk->hint = (struct region_hint){.last = walk->ahead[0]};
    return walk->ahead[0];
}

struct region *region_set_exact(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                uint32_t want) {
    const struct region_index *index = set->kinds[mem];
    uint64_t len = desc->len == 0 && mem_is_storage(mem) ? UINT64_MAX : desc->len;
    struct place place;
    struct region *region;

    if (!place_find(index, desc->dev, desc->addr, &place)) {
        return NULL;
    }
    do {
        region = place_region(index, &place);
        if (region->dev != desc->dev || region->addr != desc->addr || region->len < len) {
            return NULL;
        }
        if (region->len == len && region->mark == 0 && (want == 0 || (region->backends & want) != 0)) {
            return region;
        }
    } while (place_back(index, &place));
    return NULL;
}

/* The region with the furthest end among those that begin at or before (dev, addr); NULL for none. */
static struct region *furthest_before(const struct region_index *index, uint64_t dev, uint64_t addr) {
    struct region *best = NULL;
    struct place place;

    if (!place_find(index, dev, addr, &place)) {
        return NULL;
    }
    do {
        struct region *region = place_region(index, &place);

        if (region->dev != dev) {
            break;
        }
        if (best == NULL || region_end(region) > region_end(best)) {
            best = region;
        }
    } while (place_back(index, &place));
    return best;
}

nixl_status_t region_set_explain(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                 size_t index, const char *owner) {
    const struct region_index *regions = set->kinds[mem];
    uint64_t end = sum_or_max(desc->addr, desc->len);
    struct region *first = furthest_before(regions, desc->dev, desc->addr);
    struct region *second;

    if (first == NULL || region_end(first) <= desc->addr) {
        return fail_at(NIXL_ERR_NOT_FOUND, index,
                       "descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                       ") is in no %s region registered by %s",
                       index, desc->addr, desc->len, desc->dev, nixl_mem_string(mem), owner);
    }
    second = furthest_before(regions, desc->dev, region_end(first));
    if (second != NULL && region_end(second) > region_end(first) && second->addr < end) {
        return fail_at(NIXL_ERR_NOT_FOUND, index,
                       "descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                       ") spans two %s regions of %s, [0x%" PRIx64 ", 0x%" PRIx64 ") and [0x%" PRIx64
                       ", 0x%" PRIx64 "): each block must lie in one",
                       index, desc->addr, desc->len, desc->dev, nixl_mem_string(mem), owner, first->addr,
                       region_end(first), second->addr, region_end(second));
    }
    return fail_at(NIXL_ERR_NOT_FOUND, index,
                   "descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                   ") runs past the end of the %s region [0x%" PRIx64 ", 0x%" PRIx64 ") of %s",
                   index, desc->addr, desc->len, desc->dev, nixl_mem_string(mem), first->addr,
                   region_end(first), owner);
}

void region_set_each(const struct region_set *set, nixl_mem_t mem, region_visit_fn visit, void *ctx) {
    const struct region_index *index = set->kinds[mem];

    for (size_t c = 0; index != NULL && c < index->chunk_count; c++) {
        const struct region_chunk *chunk = index->chunks[c];

        for (uint32_t i = 0; i < chunk->count; i++) {
            if (!visit(chunk->region[i], ctx)) {
                return;
            }
        }
    }
}

size_t region_set_count(const struct region_set *set, nixl_mem_t mem) {
    return set->kinds[mem] != NULL ? set->kinds[mem]->count : 0;
}

/* ---- changes within a chunk ---- */

static void chunk_clear(struct region_chunk *chunk) {
    chunk->count = 0;
    memset(chunk->addr, 0xff, sizeof chunk->addr);
    memset(chunk->dev, 0xff, sizeof chunk->dev);
}

/* Makes place p free for a new entry: the chunk has room. */
static void chunk_insert(struct region_chunk *chunk, uint32_t p, struct region *region) {
    uint32_t tail = chunk->count - p;
    uint64_t end = region_end(region);

    memmove(&chunk->addr[p + 1], &chunk->addr[p], tail * sizeof chunk->addr[0]);
    memmove(&chunk->dev[p + 1], &chunk->dev[p], tail * sizeof chunk->dev[0]);
    memmove(&chunk->reach[p + 1], &chunk->reach[p], tail * sizeof chunk->reach[0]);
    memmove(&chunk->region[p + 1], &chunk->region[p], tail * sizeof chunk->region[0]);
    chunk->addr[p] = region->addr;
    chunk->dev[p] = region->dev;
    chunk->region[p] = region;
    chunk->count++;
    chunk->reach[p] = end;
    if (p > 0 && chunk->dev[p - 1] == region->dev && chunk->reach[p - 1] > end) {
        chunk->reach[p] = chunk->reach[p - 1];
        return;
    }
    for (uint32_t i = p + 1; i < chunk->count && chunk->dev[i] == region->dev && chunk->reach[i] < end; i++) {
        chunk->reach[i] = end;
    }
}

/* Recomputes reach from place p on, until it agrees with what is there (if `settles`). */
static void chunk_reach(struct region_chunk *chunk, uint32_t p, bool settles) {
    for (uint32_t i = p; i < chunk->count; i++) {
        uint64_t reach = region_end(chunk->region[i]);

        if (i > 0 && chunk->dev[i - 1] == chunk->dev[i] && chunk->reach[i - 1] > reach) {
            reach = chunk->reach[i - 1];
        }
        if (settles && reach == chunk->reach[i]) {
            return;
        }
        chunk->reach[i] = reach;
    }
}

static void chunk_remove(struct region_chunk *chunk, uint32_t p) {
    uint32_t tail = chunk->count - p - 1;

    memmove(&chunk->addr[p], &chunk->addr[p + 1], tail * sizeof chunk->addr[0]);
    memmove(&chunk->dev[p], &chunk->dev[p + 1], tail * sizeof chunk->dev[0]);
    memmove(&chunk->reach[p], &chunk->reach[p + 1], tail * sizeof chunk->reach[0]);
    memmove(&chunk->region[p], &chunk->region[p + 1], tail * sizeof chunk->region[0]);
    chunk->count--;
    chunk->addr[chunk->count] = UINT64_MAX;
    chunk->dev[chunk->count] = UINT64_MAX;
    chunk_reach(chunk, p, true);
}

/* Appends n entries of one chunk, from place p on, to another and takes them out of the first. */
static void chunk_move(struct region_chunk *to, struct region_chunk *from, uint32_t p) {
    uint32_t n = from->count - p;

    memcpy(&to->addr[to->count], &from->addr[p], n * sizeof to->addr[0]);
    memcpy(&to->dev[to->count], &from->dev[p], n * sizeof to->dev[0]);
    memcpy(&to->region[to->count], &from->region[p], n * sizeof to->region[0]);
    memset(&from->addr[p], 0xff, n * sizeof from->addr[0]);
    memset(&from->dev[p], 0xff, n * sizeof from->dev[0]);
    from->count = p;
    to->count += n;
    chunk_reach(to, to->count - n, false);
}

/* ---- the row of chunks ---- */

static struct region_chunk *spare_take(struct region_index *index) {
    struct region_chunk *chunk = index->spares;

    index->spares = chunk->next_spare;
    index->spare_count--;
    return chunk;
}

static bool spares_reserve(struct region_index *index, size_t want) {
    while (index->spare_count < want) {
        struct region_chunk *chunk = malloc(sizeof *chunk);

        if (chunk == NULL) {
            return false;
        }
        chunk_clear(chunk);
        chunk->next_spare = index->spares;
        index->spares = chunk;
        index->spare_count++;
    }
    return true;
}

static void spares_trim(struct region_index *index, size_t keep) {
    while (index->spare_count > keep) {
        free(spare_take(index));
    }
}

/* Takes over what changed at a chunk's ends. */
static void row_update(struct region_index *index, size_t c) {
    const struct region_chunk *chunk = index->chunks[c];
    const struct region_chunk *last = index->chunks[index->chunk_count - 1];

    index->first_addr[c] = chunk->addr[0];
    index->first_dev[c] = chunk->dev[0];
    index->last_reach[c] = chunk->reach[chunk->count - 1];
    index->one_dev = index->first_dev[0] == last->dev[last->count - 1];
}

static void row_insert(struct region_index *index, size_t c, struct region_chunk *chunk) {
    size_t tail = index->chunk_count - c;

    memmove(&index->chunks[c + 1], &index->chunks[c], tail * sizeof index->chunks[0]);
    memmove(&index->first_addr[c + 1], &index->first_addr[c], tail * sizeof index->first_addr[0]);
    memmove(&index->first_dev[c + 1], &index->first_dev[c], tail * sizeof index->first_dev[0]);
    memmove(&index->last_reach[c + 1], &index->last_reach[c], tail * sizeof index->last_reach[0]);
    index->chunks[c] = chunk;
    index->chunk_count++;
}

static void row_remove(struct region_index *index, size_t c) {
    struct region_chunk *chunk = index->chunks[c];
    size_t tail = index->chunk_count - c - 1;

    memmove(&index->chunks[c], &index->chunks[c + 1], tail * sizeof index->chunks[0]);
    memmove(&index->first_addr[c], &index->first_addr[c + 1], tail * sizeof index->first_addr[0]);
    memmove(&index->first_dev[c], &index->first_dev[c + 1], tail * sizeof index->first_dev[0]);
    memmove(&index->last_reach[c], &index->last_reach[c + 1], tail * sizeof index->last_reach[0]);
    index->chunk_count--;
    chunk_clear(chunk);
    chunk->next_spare = index->spares;
    index->spares = chunk;
    index->spare_count++;
    spares_trim(index, SPARES_KEPT);
}

static bool row_reserve(struct region_index *index, size_t need) {
    size_t cap = index->chunk_cap;
    size_t want = need + need / 2 + 4;
    uint64_t *first_addr;
    uint64_t *first_dev;
    uint64_t *last_reach;
    struct region_chunk **chunks;

    if (need <= cap) {
        return true;
    }
    /* Each array that grew stays grown; the capacity counts only when all four did. */
    first_addr = realloc(index->first_addr, want * sizeof *first_addr);
    index->first_addr = first_addr != NULL ? first_addr : index->first_addr;
    first_dev = realloc(index->first_dev, want * sizeof *first_dev);
    index->first_dev = first_dev != NULL ? first_dev : index->first_dev;
    last_reach = realloc(index->last_reach, want * sizeof *last_reach);
    index->last_reach = last_reach != NULL ? last_reach : index->last_reach;
    chunks = realloc(index->chunks, want * sizeof(struct region_chunk *));
    index->chunks = chunks != NULL ? chunks : index->chunks;
    if (first_addr == NULL || first_dev == NULL || last_reach == NULL || chunks == NULL) {
        return false;
    }
    index->chunk_cap = want;
    return true;
}

/* Where a region belongs: behind all that are not above it. */
static struct place place_for(const struct region_index *index, const struct region *region) {
    size_t last = index->chunk_count - 1;
    const struct region_chunk *tail = index->chunks[last];
    struct place place;
    struct place best;

    /* Behind everything is where lists in order put theirs. */
    if (key_le(tail->dev[tail->count - 1], tail->addr[tail->count - 1], region->dev, region->addr) &&
        (tail->addr[tail->count - 1] != region->addr || tail->region[tail->count - 1]->len <= region->len)) {
        return (struct place){last, tail->count};
    }
    if (!place_find(index, region->dev, region->addr, &place)) {
        return (struct place){0, 0};
    }
    best = (struct place){place.chunk, place.at + 1};
    do {
        const struct region *other = place_region(index, &place);

        if (other->dev != region->dev || other->addr != region->addr || other->len <= region->len) {
            break;
        }
        best = place;
    } while (place_back(index, &place));
    return best;
}

/* Splits a full chunk so that there is room at `place`, which may move. */
static void row_split(struct region_index *index, struct place *place) {
    struct region_chunk *fresh = spare_take(index);
    struct region_chunk *full = index->chunks[place->chunk];

    if (place->at == CHUNK && place->chunk + 1 == index->chunk_count) {
        /* Additions in ascending order leave full chunks behind. */
        row_insert(index, place->chunk + 1, fresh);
        *place = (struct place){place->chunk + 1, 0};
        return;
    }
    if (place->at == 0 && place->chunk == 0) {
        /* And so do those in descending order. */
        row_insert(index, 0, fresh);
        return;
    }
    chunk_move(fresh, full, CHUNK / 2);
    row_insert(index, place->chunk + 1, fresh);
    row_update(index, place->chunk);
    row_update(index, place->chunk + 1);
    if (place->at > CHUNK / 2) {
        *place = (struct place){place->chunk + 1, place->at - CHUNK / 2};
    }
}

static void index_add(struct region_index *index, struct region *region) {
    struct place place;

    if (index->chunk_count == 0) {
        row_insert(index, 0, spare_take(index));
        place = (struct place){0, 0};
    } else {
        place = place_for(index, region);
        if (index->chunks[place.chunk]->count == CHUNK) {
            row_split(index, &place);
        }
    }
    chunk_insert(index->chunks[place.chunk], place.at, region);
    row_update(index, place.chunk);
    index->count++;
}

/* Joins a chunk that has become small with a neighbour. */
static void row_join(struct region_index *index, size_t c) {
    struct region_chunk *chunk = index->chunks[c];
    size_t left = c;

    if (c + 1 < index->chunk_count && chunk->count + index->chunks[c + 1]->count <= CHUNK_JOINED) {
        left = c;
    } else if (c > 0 && chunk->count + index->chunks[c - 1]->count <= CHUNK_JOINED) {
        left = c - 1;
    } else {
        return;
    }
    chunk_move(index->chunks[left], index->chunks[left + 1], 0);
    row_remove(index, left + 1);
    row_update(index, left);
}

static void index_remove(struct region_index *index, struct region *region) {
    struct place place;

    if (!place_find(index, region->dev, region->addr, &place)) {
        return;
    }
    while (place_region(index, &place) != region) {
        if (!place_back(index, &place)) {
            return;
        }
    }
    chunk_remove(index->chunks[place.chunk], place.at);
    index->count--;
    if (index->chunks[place.chunk]->count == 0) {
        row_remove(index, place.chunk);
        if (index->chunk_count != 0) {
            row_update(index, 0); /* the set may have one dev now */
        }
        return;
    }
    row_update(index, place.chunk);
    if (index->chunks[place.chunk]->count < CHUNK_LOW) {
        row_join(index, place.chunk);
    }
}

/* ---- the set ---- */

void region_set_init(struct region_set *set) {
    *set = (struct region_set){.free_slot = NO_SLOT};
}

void region_set_destroy(struct region_set *set) {
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        struct region_index *index = set->kinds[mem];

        if (index == NULL) {
            continue;
        }
        for (size_t c = 0; c < index->chunk_count; c++) {
            free(index->chunks[c]);
        }
        spares_trim(index, 0);
        free(index->chunks);
        free(index->first_addr);
        free(index->first_dev);
        free(index->last_reach);
        free(index);
    }
    free(set->slots);
    region_set_init(set);
}

bool region_set_reserve(struct region_set *set, nixl_mem_t mem, size_t more) {
    struct region_index *index = set->kinds[mem];
    size_t splits;

    if (more > SLOTS_MAX - set->count) {
        return false;
    }
    if (!array_reserve(&set->slots, &set->slot_cap, set->count + more, sizeof set->slots[0])) {
        return false;
    }
    if (index == NULL) {
        index = calloc(1, sizeof *index);
        if (index == NULL) {
            return false;
        }
        set->kinds[mem] = index;
    }
    /* Each chunk may be full and be split by one addition; after that a half has to fill first. */
    splits = index->chunk_count + more / (CHUNK / 2) + 1;
    splits = splits < more ? splits : more;
    return row_reserve(index, index->chunk_count + splits) && spares_reserve(index, splits);
}

static void slot_give(struct region_set *set, struct region *region) {
    uint32_t slot = set->free_slot;

    if (slot != NO_SLOT) {
        set->free_slot = set->slots[slot].next_free;
    } else {
        slot = (uint32_t)set->slot_count++;
        set->slots[slot].generation = 1;
    }
    set->slots[slot].region = region;
    region->id = (struct region_id){slot, set->slots[slot].generation};
}

void region_set_add(struct region_set *set, nixl_mem_t mem, struct region **regions, size_t n) {
    struct region_index *index = set->kinds[mem];

    for (size_t i = 0; i < n; i++) {
        slot_give(set, regions[i]);
        index_add(index, regions[i]);
    }
    set->count += n;
    spares_trim(index, SPARES_KEPT);
}

void region_set_remove(struct region_set *set, struct region *region) {
    struct region_slot *slot = &set->slots[region->id.slot];

    index_remove(set->kinds[region->mem], region);
    slot->region = NULL;
    slot->generation++;
    slot->next_free = set->free_slot;
    set->free_slot = region->id.slot;
    set->count--;
    __atomic_store_n(&region->is_dead, true, __ATOMIC_RELEASE);
}
