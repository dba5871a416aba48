/* Exact search over packed codes: one pass over the rows as they lie in memory or in a mapped file.

   A row has a rank, and less is better: its Hamming distance, or its score by tables with the order turned around. A
   key is rank << 32 | row, so keys order rows by (rank, row). Each query keeps the keys below its bound. When there is
   no room left, they are cut back to the k least, and the largest of these is the new bound.

   Rows are read in tiles that fit the first cache, and every query looks at a tile before the next one is read. 64 rows
   form a block. Rows of 1, 2, 4, 8 or 16 words of 8 bytes are read where they lie, others are copied and padded with
   zeros. A kernel goes over blocks, with several queries at a time, until one of them has a row that may be wanted. The
   common code looks at that block.

   Tables: the score of a row is the sum of one entry per nibble (4 bits), from left to right, the high nibble of a
   byte first, after the entry of the leading word if there is a table for it. Sums are in float64, byte by byte, and
   the score is the sum rounded to float32. Almost no row is scored: what an entry lacks to the best of its nibble is a
   loss. Losses are rounded down to at most FULL steps, so that one shuffle looks up the losses of up to 64 rows, and
   those of four nibbles fit 8 bits. The rounded losses of a row never sum to more than its loss, so that a row whose
   sum is above the limit cannot be wanted. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The bytes of a row are read as little-endian words."
#endif
#if defined(__GNUC__)
#define INLINE __attribute__((always_inline)) static inline
#define UNROLL _Pragma("GCC unroll 16")
#define PREFETCH(at) __builtin_prefetch(at)
#define POPCOUNT(x) __builtin_popcountll(x)
#else
#define INLINE static inline
#define UNROLL
#define PREFETCH(at)
#define POPCOUNT(x) count_ones(x)
#endif

enum { ROWS = 64, WORDS = 16, PIECE = ROWS * 8 }; /* rows of a block, most words of a row, bytes of a block per word */
enum { TILE = 32 * PIECE, BLOCKS = TILE / PIECE }; /* bytes of a tile, most blocks in it */
enum { AHEAD = 8192 };                             /* bytes that are fetched ahead */
enum { GROUP = 4 };                                /* queries that look at a block together */
enum { FULL = 63, FULL_WORD = 32767 };             /* largest rounded losses of a nibble and of a word */

typedef struct {
    uint64_t all, high, low; /* the word; the high nibbles of its bytes, shifted; the low nibbles */
} Word;

/* ---- Kernels. `near` and `likely` return the first block from `block` on that has a wanted row, or `end`. ---- */

typedef struct {
    const char *name;
    /* Rows nearer than the limit of one of `n` queries, 1 or GROUP; `wanted` gets a bit per query that has some. */
    size_t (*near)(const uint8_t *rows, size_t block, size_t end, size_t n_words, const Word *const *codes,
                   const uint64_t *limits, int n, int *wanted);
    /* The distances of the rows of a block, and a bit per row that is nearer than the limit. */
    uint64_t (*measure)(const uint8_t *rows, size_t n_words, const Word *code, uint64_t limit, uint64_t *distances);
    /* Rows whose rounded losses are below the limit of one of `n` queries, 1 or GROUP; wanted[i] gets a bit per row. If
       `start` is given (to one query), its losses are added; in it, the even rows of a block are before the odd ones. */
    size_t (*likely)(const uint8_t *planes, size_t block, size_t end, size_t n_words, size_t width,
                     const uint8_t *const *rounded, const uint16_t *limits, int n, const uint16_t *start,
                     uint64_t *wanted);
    /* From [64 rows][bytes] to [bytes][64 rows], block by block. */
    void (*to_planes)(const uint8_t *rows, size_t blocks, size_t n_words, uint8_t *planes);
} Kernel;

static inline uint64_t load(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static int lowest_bit(uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int bit = 0;
    while (!(bits >> bit & 1)) bit++;
    return bit;
#endif
}

static inline uint64_t count_ones(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    return ((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56;
}

INLINE uint64_t measure_words(const uint8_t *rows, const size_t n_words, const Word *code, uint64_t limit,
                              uint64_t *distances, const int has_popcount) {
    uint64_t wanted = 0;
    for (size_t row = 0; row < ROWS; row++) {
        distances[row] = 0;
        for (size_t word = 0; word < n_words; word++) {
            uint64_t x = load(rows + 8 * (row * n_words + word)) ^ code[word].all;
            distances[row] += has_popcount ? (uint64_t)POPCOUNT(x) : count_ones(x);
        }
    }
    for (int row = 0; row < ROWS; row++) wanted |= (uint64_t)(distances[row] < limit) << row;
    return wanted;
}

static uint64_t measure_portable(const uint8_t *rows, size_t n_words, const Word *code, uint64_t limit,
                                 uint64_t *distances) {
    if (n_words == 1) return measure_words(rows, 1, code, limit, distances, 0);
    return measure_words(rows, n_words, code, limit, distances, 0);
}

static size_t near_portable(const uint8_t *rows, size_t block, size_t end, size_t n_words, const Word *const *codes,
                            const uint64_t *limits, int n, int *wanted) {
    uint64_t distances[ROWS];
    for (; block < end; block++) {
        *wanted = 0;
        for (int i = 0; i < n; i++)
            *wanted |= !!measure_portable(rows + block * n_words * PIECE, n_words, codes[i], limits[i], distances) << i;
        if (*wanted) break;
    }
    return block;
}

static size_t likely_portable(const uint8_t *planes, size_t block, size_t end, size_t n_words, size_t width,
                              const uint8_t *const *rounded, const uint16_t *limits, int n, const uint16_t *start,
                              uint64_t *wanted) {
    for (uint64_t any = 0; block < end; block++) {
        for (int i = 0; i < n; i++) {
            const uint8_t *at = planes + block * n_words * PIECE, *table = rounded[i];
            uint32_t sums[ROWS];
            for (int row = 0; row < ROWS; row++) sums[row] = start ? start[block * ROWS + row % 2 * 32 + row / 2] : 0;
            for (size_t byte = 0; byte < width; byte++, at += ROWS, table += 32)
                for (int row = 0; row < ROWS; row++) sums[row] += table[at[row] >> 4] + table[16 + (at[row] & 15)];
            wanted[i] = 0;
            for (int row = 0; row < ROWS; row++) wanted[i] |= (uint64_t)(sums[row] < limits[i]) << row;
            any |= wanted[i];
        }
        if (any) break;
    }
    return block;
}

static void to_planes_portable(const uint8_t *rows, size_t blocks, size_t n_words, uint8_t *planes) {
    for (; blocks; blocks--, rows += n_words * PIECE, planes += n_words * PIECE)
        for (size_t row = 0; row < ROWS; row++)
            for (size_t byte = 0; byte < 8 * n_words; byte++)
                planes[byte * ROWS + row] = rows[row * 8 * n_words + byte];
}

static const Kernel portable = {"portable", near_portable, measure_portable, likely_portable, to_planes_portable};

#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#include <immintrin.h>

static const uint8_t ones[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4}; /* of each nibble */

#define BYTES 64
#define LOOK_UP(table, x) \
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(table))), (__m512i)(x))
#define LEAST(a, b) _mm512_min_epu32((__m512i)(a), (__m512i)(b))
#define ANY(x) _mm512_test_epi64_mask((__m512i)(x), (__m512i)(x))
#define LANES_256(at, step) _mm256_loadu2_m128i((const __m128i *)((at) + (step)), (const __m128i *)(at))
#define LANES(at, step) \
    _mm512_inserti64x4(_mm512_castsi256_si512(LANES_256(at, step)), LANES_256((at) + 2 * (step), step), 1)
#define LOW_BYTES(a, b) _mm512_unpacklo_epi8((__m512i)(a), (__m512i)(b))
#define HIGH_BYTES(a, b) _mm512_unpackhi_epi8((__m512i)(a), (__m512i)(b))
#define LOW_WORDS(a, b) _mm512_unpacklo_epi64((__m512i)(a), (__m512i)(b))
#define HIGH_WORDS(a, b) _mm512_unpackhi_epi64((__m512i)(a), (__m512i)(b))
#define EVEN_LANES(a, b) _mm512_shuffle_i64x2((__m512i)(a), (__m512i)(b), 0x88)
#define ODD_LANES(a, b) _mm512_shuffle_i64x2((__m512i)(a), (__m512i)(b), 0xdd)

#define NAME(x) x##_avx512
#define LABEL "avx512"
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vpopcntdq,popcnt")))
#define COUNTS u64_avx512
#define COUNT(x, q) (u64_avx512)_mm512_popcnt_epi64((__m512i)((x) ^ (q)->all))
#define SUM(x) (x)
#include "_kernel.h"

#define NIBBLES 0x0f0f0f0f0f0f0f0f
#define NAME(x) x##_avx512bw
#define LABEL "avx512bw"
#define TARGET __attribute__((target("avx512f,avx512bw,popcnt")))
#define COUNTS u8_avx512bw
#define COUNT(x, q) \
    ((u8_avx512bw)LOOK_UP(ones, ((x) >> 4 & NIBBLES) ^ (q)->high) + \
     (u8_avx512bw)LOOK_UP(ones, ((x) & NIBBLES) ^ (q)->low))
#define SUM(x) _mm512_sad_epu8((__m512i)(x), _mm512_setzero_si512())
#include "_kernel.h"

#undef BYTES
#undef LOOK_UP
#undef LEAST
#undef ANY
#undef LANES
#undef LOW_BYTES
#undef HIGH_BYTES
#undef LOW_WORDS
#undef HIGH_WORDS
#undef EVEN_LANES
#undef ODD_LANES
#define BYTES 32
#define LOOK_UP(table, x) \
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table))), (__m256i)(x))
#define LEAST(a, b) _mm256_min_epu32((__m256i)(a), (__m256i)(b))
#define ANY(x) !_mm256_testz_si256((__m256i)(x), (__m256i)(x))
#define LANES(at, step) LANES_256(at, step)
#define LOW_BYTES(a, b) _mm256_unpacklo_epi8((__m256i)(a), (__m256i)(b))
#define HIGH_BYTES(a, b) _mm256_unpackhi_epi8((__m256i)(a), (__m256i)(b))
#define LOW_WORDS(a, b) _mm256_unpacklo_epi64((__m256i)(a), (__m256i)(b))
#define HIGH_WORDS(a, b) _mm256_unpackhi_epi64((__m256i)(a), (__m256i)(b))
#define EVEN_LANES(a, b) _mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), 0x20)
#define ODD_LANES(a, b) _mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), 0x31)

#define NAME(x) x##_avx2
#define LABEL "avx2"
#define TARGET __attribute__((target("avx2,popcnt")))
#define COUNTS u8_avx2
#define COUNT(x, q) \
    ((u8_avx2)LOOK_UP(ones, ((x) >> 4 & NIBBLES) ^ (q)->high) + \
     (u8_avx2)LOOK_UP(ones, ((x) & NIBBLES) ^ (q)->low))
#define SUM(x) _mm256_sad_epu8((__m256i)(x), _mm256_setzero_si256())
#include "_kernel.h"

#elif defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#define NEON 1
#include <arm_neon.h>

#define NAME(x) x##_neon
#define LABEL "neon"
#define TARGET
#define BYTES 16
#define COUNTS u8_neon
#define COUNT(x, q) (u8_neon)vcntq_u8((uint8x16_t)((x) ^ (q)->all))
#define SUM(x) vpaddlq_u32(vpaddlq_u16(vpaddlq_u8((uint8x16_t)(x))))
#define LOOK_UP(table, x) vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)(x))
#define LEAST(a, b) vminq_u32((uint32x4_t)(a), (uint32x4_t)(b))
#define ANY(x) vmaxvq_u32((uint32x4_t)(x))
#define LANES(at, step) vld1q_u8(at)
#define LOW_BYTES(a, b) vzip1q_u8((uint8x16_t)(a), (uint8x16_t)(b))
#define HIGH_BYTES(a, b) vzip2q_u8((uint8x16_t)(a), (uint8x16_t)(b))
#define LOW_WORDS(a, b) vzip1q_u64((uint64x2_t)(a), (uint64x2_t)(b))
#define HIGH_WORDS(a, b) vzip2q_u64((uint64x2_t)(a), (uint64x2_t)(b))
#define EVEN_LANES(a, b) (a) /* there is one lane only */
#define ODD_LANES(a, b) (b)
#include "_kernel.h"
#endif

/* The kernels that this processor can run, the fastest first. */
static const Kernel *runnable[4];
static const Kernel *kernel = &portable;

static void find_runnable(void) {
    int n = 0;
#if X86
    __builtin_cpu_init();
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (wide && __builtin_cpu_supports("avx512vpopcntdq")) runnable[n++] = &kernel_avx512;
    if (wide) runnable[n++] = &kernel_avx512bw;
    if (__builtin_cpu_supports("avx2")) runnable[n++] = &kernel_avx2;
#endif
#if NEON
    runnable[n++] = &kernel_neon;
#endif
    runnable[n] = &portable;
    kernel = runnable[0];
}

/* ---- Queries ---- */

typedef struct {
    const uint8_t *codes, *allowed; /* allowed: bit row % 8 of byte row / 8, or NULL for all rows */
    const uint32_t *numbers;        /* of the rows in keys, or NULL: their places */
    size_t count, width, n_words;
} Rows;

typedef struct {
    /* Keys of the best rows so far: the k least or, if k is 0, all below the bound. */
    uint64_t *keys, bound;
    size_t held, room, k;
    int out_of_memory;

    Word code[WORDS]; /* of a Hamming query */

    /* A query by tables. */
    const float *tables, *words; /* [nibble][16]; by word, or NULL */
    int word_bits;
    size_t n_values; /* of a word */
    float *best_entries, best_word, least_word; /* of each nibble; of the word */
    double word;                                /* the most that the word adds to the rows that are looked at */
    double top, slack;                          /* best score without a word; more than rounding can change */
    double widest, step;                        /* largest loss of a nibble; what a rounded loss counts */
    uint8_t *rounded;                           /* the tables, as losses in steps */
    uint16_t limit, *rounded_words;
} Query;

/* Move the k least keys to the front, the largest of them last. */
static void select_least(uint64_t *keys, size_t n, size_t k) {
    ptrdiff_t left = 0, right = (ptrdiff_t)n - 1, wanted = (ptrdiff_t)k - 1;
    while (left < right) {
        uint64_t pivot = keys[left + (right - left) / 2];
        ptrdiff_t i = left, j = right;
        while (i <= j) {
            while (keys[i] < pivot) i++;
            while (pivot < keys[j]) j--;
            if (i > j) break;
            uint64_t key = keys[i];
            keys[i++] = keys[j];
            keys[j--] = key;
        }
        if (j < wanted) left = i;
        if (wanted < i) right = j;
    }
}

static void cut(Query *query) {
    select_least(query->keys, query->held, query->k);
    query->held = query->k;
    query->bound = query->keys[query->k - 1];
}

static void keep(Query *query, uint64_t key) {
    if (key >= query->bound) return;
    query->keys[query->held++] = key;
    if (query->held < query->room) return;
    if (query->k) {
        cut(query);
        return;
    }
    uint64_t *keys = realloc(query->keys, 2 * query->room * sizeof *keys);
    if (keys) {
        query->keys = keys;
        query->room *= 2;
    } else {
        query->out_of_memory = 1;
        query->bound = 0;
        query->held = 0;
    }
}

/* float32 scores in descending order as ascending integers, and back. */
static uint32_t rank_of(float score) {
    uint32_t bits;
    memcpy(&bits, &score, 4);
    return bits >> 31 ? bits : bits ^ 0x7fffffff;
}

static float score_of(uint32_t rank) {
    uint32_t bits = rank >> 31 ? rank : rank ^ 0x7fffffff;
    float score;
    memcpy(&score, &bits, 4);
    return rank > rank_of(-INFINITY) ? -INFINITY : score;
}

static size_t word_of(int word_bits, uint8_t first, uint8_t second) {
    return word_bits == 8 ? first : ((size_t)first << 8 | second) >> (16 - word_bits);
}

static float score(const Query *query, const uint8_t *row, size_t width) {
    double sum = query->words ? query->words[word_of(query->word_bits, row[0], width > 1 ? row[1] : 0)] : 0;
    const float *table = query->tables;
    for (size_t i = 0; i < width; i++, table += 32) sum += (double)table[row[i] >> 4] + table[16 + (row[i] & 15)];
    return (float)sum + 0.0f; /* no negative zero */
}

static uint16_t in_steps(double loss, double per_step, uint16_t most) {
    double steps = loss * per_step;
    return steps < most ? (uint16_t)steps : most;
}

static void round_losses(Query *query, size_t width) {
    double per_step = 1 / query->step;
    for (size_t i = 0; i < 32 * width; i++)
        query->rounded[i] = (uint8_t)in_steps((double)query->best_entries[i / 16] - query->tables[i], per_step, FULL);
    for (size_t i = 0; query->rounded_words && i < query->n_values; i++)
        query->rounded_words[i] = in_steps((double)query->best_word - query->words[i], per_step, FULL_WORD);
}

/* Set the exclusive limit of the rounded losses of rows whose word adds at most query->word; 0 if no such row can
   be wanted. A nibble that loses more than the limit is rounded to FULL, above the limit, so that the steps need to
   reach only as far as the limit. They are made finer when they reach twice as far as needed. */
static uint16_t set_limit(Query *query, size_t width) {
    double most = query->top + query->word - (double)score_of((uint32_t)((query->bound - 1) >> 32)) + query->slack;
    if (most < 0 || !query->bound) return query->limit = 0;
    double reach = most < query->widest ? most : query->widest;
    if (!(query->step * FULL < 2 * reach)) {
        query->step = reach / (FULL - 1);
        round_losses(query, width);
    }
    double steps = most / query->step;
    return query->limit = steps < FULL_WORD ? (uint16_t)steps + 1 : UINT16_MAX;
}

/* The least and the best entry of a table; returns the largest absolute value. */
static double extent(const float *table, size_t n, float *least, float *best) {
    *least = *best = table[0];
    for (size_t i = 1; i < n; i++) {
        if (table[i] < *least) *least = table[i];
        if (table[i] > *best) *best = table[i];
    }
    return fabs(*best) > fabs(*least) ? fabs(*best) : fabs(*least);
}

static void prepare_tables(Query *query, size_t width) {
    double sizes = query->words ? extent(query->words, query->n_values, &query->least_word, &query->best_word) : 0;
    for (size_t nibble = 0; nibble < 2 * width; nibble++) {
        float least, *best = &query->best_entries[nibble];
        sizes += extent(query->tables + 16 * nibble, 16, &least, best);
        query->top += *best;
        if ((double)*best - least > query->widest) query->widest = (double)*best - least;
    }
    query->word = query->best_word;
    /* More than rounding to float32 and the rounding of float64 sums can change. */
    query->slack = FLT_EPSILON * sizes + FLT_MIN;
    query->widest += query->slack; /* not 0 */
    query->step = HUGE_VAL;        /* not rounded yet */
}

/* ---- Tiles ---- */

typedef struct {
    const uint8_t *rows; /* of n_words words: the codes themselves or the copy */
    size_t first, blocks, n_runs, runs[BLOCKS + 1][2]; /* runs of blocks that have an allowed row */
    uint64_t allowed[BLOCKS];
    uint8_t copy[TILE], planes[TILE];
    uint16_t start[BLOCKS * ROWS];
} Tile;

static uint64_t allowed_rows(const Rows *rows, size_t first, size_t end) {
    uint64_t bits = end - first < ROWS ? ((uint64_t)1 << (end - first)) - 1 : ~(uint64_t)0;
    if (!rows->allowed) return bits;
    uint8_t bytes[16] = {0};
    size_t last = (rows->count + 7) / 8, at = first / 8;
    memcpy(bytes, rows->allowed + at, last - at < 9 ? last - at : 9);
    return bits & (first % 8 ? load(bytes) >> first % 8 | load(bytes + 8) << (64 - first % 8) : load(bytes));
}

/* Copy rows [first, end) to rows of n_words words. What follows the last byte of a row stays zero. */
INLINE void copy_rows(const Rows *rows, size_t first, size_t end, uint8_t *to, const size_t width) {
    const uint8_t *row = rows->codes + first * width;
    for (size_t i = first; i < end; i++, row += width, to += 8 * rows->n_words) {
        for (size_t at = 0; at + 8 <= width; at += 8) memcpy(to + at, row + at, 8);
        if (width >= 8) memcpy(to + width - 8, row + width - 8, 8);
        else memcpy(to, row, width);
    }
}

static void copy_tile(const Rows *rows, size_t first, size_t end, uint8_t *to) {
    switch (rows->width) { /* a width that the compiler knows makes short rows several times as fast */
    case 1: copy_rows(rows, first, end, to, 1); break;
    case 2: copy_rows(rows, first, end, to, 2); break;
    case 3: copy_rows(rows, first, end, to, 3); break;
    case 4: copy_rows(rows, first, end, to, 4); break;
    case 6: copy_rows(rows, first, end, to, 6); break;
    case 12: copy_rows(rows, first, end, to, 12); break;
    default: copy_rows(rows, first, end, to, rows->width);
    }
}

/* Read rows [first, end), at most as many as fit a tile; false if none of them is allowed. */
static int read_tile(Tile *tile, const Rows *rows, size_t first, size_t end, int with_planes) {
    tile->first = first;
    tile->blocks = (end - first + ROWS - 1) / ROWS;
    tile->n_runs = 0;
    for (size_t block = 0; block < tile->blocks; block++) {
        tile->allowed[block] = allowed_rows(rows, first + block * ROWS, end);
        if (!tile->allowed[block]) continue;
        if (!tile->n_runs || tile->runs[tile->n_runs - 1][1] != block) tile->runs[tile->n_runs++][0] = block;
        tile->runs[tile->n_runs - 1][1] = block + 1;
    }
    if (!tile->n_runs) return 0;
    int in_place = rows->width == 8 * rows->n_words && first + tile->blocks * ROWS <= rows->count; /* whole blocks */
    tile->rows = in_place ? rows->codes + first * rows->width : tile->copy;
    if (!in_place) copy_tile(rows, first, end, tile->copy);
    if (with_planes) kernel->to_planes(tile->rows, tile->blocks, rows->n_words, tile->planes);
    return 1;
}

/* The losses of the leading words of the rows from `block` on. */
static void look_up_words(Tile *tile, const Rows *rows, const Query *query, size_t block) {
    for (; block < tile->blocks; block++) {
        const uint8_t *plane = tile->planes + block * rows->n_words * PIECE;
        for (int row = 0; row < ROWS; row++)
            tile->start[block * ROWS + row % 2 * 32 + row / 2] =
                query->rounded_words[word_of(query->word_bits, plane[row], plane[ROWS + row])];
    }
}

/* The exclusive limit of ranks. At the rank of the bound, only a row with a smaller number is wanted, and in order
   those came before. */
static uint64_t limit_of(const Query *query, const Rows *rows) {
    uint64_t rank = query->bound >> 32;
    return rank + (rows->numbers && rank < UINT32_MAX);
}

static void keep_row(const Rows *rows, Query *query, size_t row, uint64_t rank) {
    keep(query, rank << 32 | (rows->numbers ? rows->numbers[row] : row));
}

/* Look at a tile with 1 or GROUP queries. */
static void look_by_distance(Tile *tile, const Rows *rows, Query *queries, int n) {
    const Word *codes[GROUP];
    uint64_t limits[GROUP], distances[ROWS];
    int wanted;
    for (int i = 0; i < n; i++) {
        codes[i] = queries[i].code;
        limits[i] = limit_of(queries + i, rows);
    }
    for (size_t run = 0; run < tile->n_runs; run++) {
        size_t block = tile->runs[run][0], end = tile->runs[run][1];
        while ((block = kernel->near(tile->rows, block, end, rows->n_words, codes, limits, n, &wanted)) < end) {
            const uint8_t *here = tile->rows + block * rows->n_words * PIECE;
            for (; wanted; wanted &= wanted - 1) {
                int i = lowest_bit((uint64_t)wanted);
                uint64_t near = kernel->measure(here, rows->n_words, codes[i], limits[i], distances);
                for (near &= tile->allowed[block]; near; near &= near - 1) {
                    int lane = lowest_bit(near);
                    keep_row(rows, queries + i, tile->first + block * ROWS + lane, distances[lane]);
                }
                limits[i] = limit_of(queries + i, rows);
            }
            block++;
        }
    }
}

/* The same by tables. */
static void look_by_tables(Tile *tile, const Rows *rows, Query *queries, int n) {
    const uint8_t *rounded[GROUP];
    uint16_t limits[GROUP], *start = queries->rounded_words ? tile->start : NULL, any = 0;
    uint64_t wanted[GROUP];
    for (int i = 0; i < n; i++) {
        rounded[i] = queries[i].rounded;
        any |= limits[i] = set_limit(queries + i, rows->width);
    }
    if (!any) return;
    if (start) look_up_words(tile, rows, queries, 0);
    for (size_t run = 0; run < tile->n_runs; run++) {
        size_t block = tile->runs[run][0], end = tile->runs[run][1];
        while ((block = kernel->likely(tile->planes, block, end, rows->n_words, rows->width, rounded, limits, n, start,
                                       wanted)) < end) {
            for (int i = 0; i < n; i++) {
                Query *query = queries + i;
                uint64_t bound = query->bound;
                double step = query->step;
                for (wanted[i] &= tile->allowed[block]; wanted[i]; wanted[i] &= wanted[i] - 1) {
                    size_t row = tile->first + block * ROWS + lowest_bit(wanted[i]);
                    keep_row(rows, query, row, rank_of(score(query, rows->codes + row * rows->width, rows->width)));
                }
                if (query->bound == bound) continue;
                limits[i] = set_limit(query, rows->width);
                if (start && query->step != step) look_up_words(tile, rows, query, block + 1);
            }
            block++;
        }
    }
}

static void scan_rows(Tile *tile, const Rows *rows, Query *queries, size_t n) {
    size_t most = BLOCKS / rows->n_words * ROWS;
    for (size_t first = 0; first < rows->count; first += most) {
        size_t end = rows->count - first < most ? rows->count : first + most;
        if (!read_tile(tile, rows, first, end, queries->tables != NULL)) continue;
        for (size_t i = 0, group; i < n; i += group) {
            group = queries->words || n - i < GROUP ? 1 : GROUP;
            (queries->tables ? look_by_tables : look_by_distance)(tile, rows, queries + i, (int)group);
        }
    }
}

/* Sort the values of the word by their entry, the best first, in LEVELS levels. */
enum { LEVELS = 256 };

static void order_words(const Query *query, int32_t *order) {
    size_t places[LEVELS + 1] = {0};
    double range = (double)query->best_word - query->least_word, per_level = range > 0 ? (LEVELS - 1) / range : 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < query->n_values; i++) {
            size_t level = (size_t)(((double)query->best_word - query->words[i]) * per_level);
            if (pass) order[places[level]++] = (int32_t)i;
            else places[level + 1]++;
        }
        for (int level = 0; !pass && level < LEVELS; level++) places[level + 1] += places[level];
    }
}

/* Look at the rows [starts[g], starts[g + 1]) of each group g of `groups`; skip groups of a word whose rows cannot be
   wanted. Returns how many rows were looked at. */
static size_t scan_groups(Tile *tile, const Rows *rows, Query *query, const int64_t *starts, const int32_t *groups,
                          size_t n_groups) {
    size_t seen = 0, most = BLOCKS / rows->n_words * ROWS;
    for (size_t i = 0; i < n_groups; i++) {
        size_t first = (size_t)starts[groups[i]], stop = (size_t)starts[groups[i] + 1];
        if (query->words) query->word = query->words[groups[i]];
        if (first == stop || (query->tables && !set_limit(query, rows->width))) continue;
        seen += stop - first;
        for (; first < stop; first += most) {
            size_t end = stop - first < most ? stop : first + most;
            if (!read_tile(tile, rows, first, end, query->tables != NULL)) continue;
            (query->tables ? look_by_tables : look_by_distance)(tile, rows, query, 1);
        }
    }
    return seen;
}

/* ---- Python ---- */

enum { CODES, ALLOWED, NUMBERS, QUERIES, ENTRIES, ENTRIES_OF_WORDS, STARTS, GROUPS, LIMITS, BUFFERS };

typedef struct {
    Py_buffer buffers[BUFFERS];
    Rows rows;
    size_t n, n_starts, n_groups, n_values; /* queries; groups + 1; groups per query; values of a word */
    int word_bits;
} Call;

static size_t items(const Call *call, int buffer, size_t size) { return (size_t)call->buffers[buffer].len / size; }

static int fits(const Call *call, int buffer, size_t bytes) {
    return !call->buffers[buffer].buf || (size_t)call->buffers[buffer].len == bytes;
}

/* Check that the buffers fit each other, so that no row and no entry outside of them is read. */
static int ready(Call *call, Py_ssize_t width, Py_ssize_t k) {
    const Py_buffer *buffers = call->buffers;
    if (width < 1 || width > 8 * WORDS || k < 0 || buffers[CODES].len % width || buffers[LIMITS].len % 8) return 0;
    size_t bytes = (size_t)width, count = items(call, CODES, bytes), n = call->n = items(call, LIMITS, 8);
    call->rows = (Rows){buffers[CODES].buf, buffers[ALLOWED].buf, buffers[NUMBERS].buf, count, bytes, 1};
    while (8 * call->rows.n_words < bytes) call->rows.n_words *= 2;
    call->n_starts = items(call, STARTS, 8);
    call->n_groups = n ? items(call, GROUPS, 4 * n) : 0;
    call->n_values = buffers[ENTRIES_OF_WORDS].buf && n ? items(call, ENTRIES_OF_WORDS, 4 * n) : 0;
    call->word_bits = call->n_values == 256 ? 8 : call->n_values == 4096 ? 12 : call->n_values == 65536 ? 16 : 0;
    if (count > UINT32_MAX || !fits(call, ALLOWED, (count + 7) / 8) || !fits(call, NUMBERS, 4 * count)) return 0;
    if (!buffers[QUERIES].buf == !buffers[ENTRIES].buf) return 0;
    if (!fits(call, QUERIES, n * bytes) || !fits(call, ENTRIES, n * bytes * 32 * sizeof(float))) return 0;
    if (buffers[ENTRIES_OF_WORDS].buf && n) {
        if (!buffers[ENTRIES].buf || !call->word_bits || (call->word_bits > 8 && width < 2)) return 0;
        if (!fits(call, ENTRIES_OF_WORDS, n * call->n_values * sizeof(float))) return 0;
    }
    if (!buffers[STARTS].buf) return !buffers[GROUPS].buf;
    const int64_t *starts = buffers[STARTS].buf;
    if (buffers[STARTS].len % 8 || !call->n_starts || starts[0] || starts[call->n_starts - 1] != (int64_t)count) return 0;
    for (size_t i = 1; i < call->n_starts; i++)
        if (starts[i - 1] > starts[i]) return 0;
    if (call->n_values && call->n_values != call->n_starts - 1) return 0;
    if (!buffers[GROUPS].buf) return call->n_values > 0 || !n;
    const int32_t *groups = buffers[GROUPS].buf;
    for (size_t i = 0; i < n * call->n_groups; i++)
        if (groups[i] < 0 || (size_t)groups[i] >= call->n_starts - 1) return 0;
    return fits(call, GROUPS, n * call->n_groups * 4);
}

static void free_queries(Query *queries, size_t n) {
    for (size_t i = 0; queries && i < n; i++) {
        free(queries[i].keys);
        free(queries[i].best_entries);
        free(queries[i].rounded);
        free(queries[i].rounded_words);
    }
    free(queries);
}

/* The queries with room for their keys, and with bounds from the exclusive limits of ranks; NULL without memory. */
static Query *new_queries(const Call *call, size_t k) {
    const int64_t *limits = call->buffers[LIMITS].buf;
    const float *entries = call->buffers[ENTRIES].buf, *words = call->buffers[ENTRIES_OF_WORDS].buf;
    const uint8_t *codes = call->buffers[QUERIES].buf;
    size_t width = call->rows.width;
    Query *queries = calloc(call->n + 1, sizeof *queries);
    for (size_t i = 0; queries && i < call->n; i++) {
        Query *query = queries + i;
        query->k = k;
        query->room = k ? 2 * k + 16 : 64;
        query->keys = malloc(query->room * sizeof *query->keys);
        query->bound = limits[i] > UINT32_MAX ? UINT64_MAX : limits[i] < 0 ? 0 : (uint64_t)limits[i] << 32;
        int failed = !query->keys;
        if (codes) {
            for (size_t at = 0; at < width; at++) ((uint8_t *)&query->code[at / 8].all)[at % 8] = codes[i * width + at];
            for (Word *word = query->code; word < query->code + WORDS; word++) {
                word->high = word->all >> 4 & 0x0f0f0f0f0f0f0f0f;
                word->low = word->all & 0x0f0f0f0f0f0f0f0f;
            }
        } else {
            query->tables = entries + i * 32 * width;
            failed |= !(query->best_entries = malloc(2 * width * sizeof(float)));
            failed |= !(query->rounded = calloc(8 * call->rows.n_words, 32)); /* zeros: kernels read bytes by twos */
        }
        if (words) {
            query->words = words + i * call->n_values;
            query->word_bits = call->word_bits;
            query->n_values = call->n_values;
            if (!call->n_starts) failed |= !(query->rounded_words = malloc(call->n_values * sizeof(uint16_t)));
        }
        if (failed) {
            free_queries(queries, call->n);
            return NULL;
        }
    }
    return queries;
}

/* (number of keys per query as int64, keys of all queries as uint64, rows seen per query as int64), as bytes. */
static PyObject *results(Query *queries, size_t n, const int64_t *seen) {
    size_t total = 0;
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        if (queries[i].k && queries[i].held > queries[i].k) cut(queries + i);
        total += queries[i].held;
        failed |= queries[i].out_of_memory;
    }
    if (failed) return PyErr_NoMemory();
    PyObject *counts = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * 8));
    PyObject *keys = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(total * 8));
    PyObject *looked = PyBytes_FromStringAndSize((const char *)seen, (Py_ssize_t)(n * 8));
    PyObject *all = counts && keys && looked ? PyTuple_Pack(3, counts, keys, looked) : NULL;
    if (all) {
        char *count_at = PyBytes_AsString(counts), *key_at = PyBytes_AsString(keys);
        for (size_t i = 0; i < n; i++) {
            int64_t held = (int64_t)queries[i].held;
            memcpy(count_at + 8 * i, &held, 8);
            memcpy(key_at, queries[i].keys, queries[i].held * 8);
            key_at += queries[i].held * 8;
        }
    }
    Py_XDECREF(counts);
    Py_XDECREF(keys);
    Py_XDECREF(looked);
    return all;
}

static PyObject *run(const Call *call, size_t k) {
    size_t n = call->n;
    const Rows *rows = &call->rows;
    const int64_t *starts = call->buffers[STARTS].buf;
    const int32_t *groups = call->buffers[GROUPS].buf;
    Query *queries = new_queries(call, k);
    Tile *tile = calloc(1, sizeof *tile); /* zeros behind the rows of a copy */
    int32_t *order = malloc((call->n_values + 1) * sizeof *order);
    int64_t *seen = calloc(n + 1, sizeof *seen);
    PyObject *found = NULL;
    if (queries && tile && order && seen) {
        Py_BEGIN_ALLOW_THREADS
        for (size_t i = 0; i < n; i++) {
            if (queries[i].tables) prepare_tables(queries + i, rows->width);
            if (!starts) {
                seen[i] = (int64_t)rows->count;
            } else if (groups) {
                const int32_t *chosen = groups + i * call->n_groups;
                seen[i] = (int64_t)scan_groups(tile, rows, queries + i, starts, chosen, call->n_groups);
            } else {
                order_words(queries + i, order);
                seen[i] = (int64_t)scan_groups(tile, rows, queries + i, starts, order, call->n_values);
            }
        }
        if (!starts && n) scan_rows(tile, rows, queries, n);
        Py_END_ALLOW_THREADS
        found = results(queries, n, seen);
    } else {
        PyErr_NoMemory();
    }
    free_queries(queries, n);
    free(tile);
    free(order);
    free(seen);
    return found;
}

PyDoc_STRVAR(scan_doc,
"scan(codes, width, allowed, numbers, queries, entries, words, starts, groups, limits, k) -> (counts, keys, seen)\n\n"
"Keys (rank << 32 | row) of the k rows of the least ranks of each query, of those whose rank is below its limit\n"
"(int64), in no order; all of these if k is 0. Three values of bytes: int64 per query, uint64, int64 per query.\n"
"codes: rows of `width` bytes. allowed: a bit per row, lowest first, or None. numbers: uint32 per row, which keys have\n"
"instead of row numbers, or None. queries: rows like codes, or None and entries: float32 (queries, 2 width, 16), and\n"
"words: float32 (queries, 2 ** bits) or None. starts: int64, where the rows of each group begin, and the end, or None.\n"
"groups: int32 (queries, any number) of groups to look at, or None: rows are grouped by their leading word.");

static PyObject *scan(PyObject *self, PyObject *args) {
    Call call = {0};
    Py_buffer *b = call.buffers;
    Py_ssize_t width, k;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nz*z*z*z*z*z*z*y*n", &b[CODES], &width, &b[ALLOWED], &b[NUMBERS], &b[QUERIES],
                          &b[ENTRIES], &b[ENTRIES_OF_WORDS], &b[STARTS], &b[GROUPS], &b[LIMITS], &k))
        return NULL;
    PyObject *found = NULL;
    if (ready(&call, width, k)) found = run(&call, (size_t)k);
    else PyErr_SetString(PyExc_ValueError, "The buffers do not fit each other.");
    for (int i = 0; i < BUFFERS; i++) PyBuffer_Release(&b[i]);
    return found;
}

PyDoc_STRVAR(runnable_doc, "runnable()\n\nNames of the kernels that this processor can run, the fastest first.");

static PyObject *runnable_names(PyObject *self, PyObject *args) {
    PyObject *names = PyList_New(0);
    (void)self, (void)args;
    for (int i = 0; names && i < 4 && runnable[i]; i++) {
        PyObject *name = PyUnicode_FromString(runnable[i]->name);
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyDoc_STRVAR(use_doc, "use(name)\n\nUse the kernel with this name from now on.");

static PyObject *use(PyObject *self, PyObject *args) {
    const char *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    for (int i = 0; i < 4 && runnable[i]; i++)
        if (!strcmp(name, runnable[i]->name)) {
            kernel = runnable[i];
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "This processor cannot run the kernel '%s'.", name);
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, scan_doc},
    {"runnable", runnable_names, METH_NOARGS, runnable_doc},
    {"use", use, METH_VARARGS, use_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) {
    find_runnable();
    return PyModuleDef_Init(&module);
}
