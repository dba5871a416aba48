/* Asymmetric search over packed codes: every code is scanned with tables rounded to 8 bits, few are scored.

   A code costs the sum of |q| over the bits in which it differs from the signs of the query q, and its score
   -q.h is twice that less the sum of all |q|. For each nibble the 16 possible costs, in steps and rounded down, fit
   one register, so that one shuffle looks up 32 codes. Sums saturate at 255, and only codes of little cost matter,
   so 8 bits hold them: a step is the cost that a sample of the codes shows to be enough, divided by 240.
   A code whose rounded sum is above the limit costs more than the k-th best code so far, for certain; the others are
   scored exactly, and the limit falls with the k-th best. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Left out for other processors and for MSVC: there usable() says so, and the scan of faiss is used instead. */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_SCAN 1
#include <immintrin.h>
#include <math.h>
#include <stdlib.h>

enum { LANES = 32, TILE = 64, TOGETHER = 4, STEPS = 240, FULL = 255 };
#define ROUNDING 1e-6 /* of the sum of all |q|: more than float32 scores and float64 sums can be wrong by */

typedef struct {
    const uint8_t *planes; /* [block][byte][lane] */
    Py_ssize_t count, n_bytes;
} Codes;

typedef struct {
    const double *entries; /* [byte][256], what each byte value adds to the score */
    const uint8_t *rounded; /* [byte][2][lane], costs of the low and the high nibble in steps, twice 16 */
    float *best;            /* heap of the k least scores, the largest first */
    int64_t *places;
    float *scores;
    Py_ssize_t k, held, room, found;
    double total, step;
    uint8_t limit;
    int failed;
} Query;

static float score(const Codes *codes, const double *entries, Py_ssize_t place) {
    const uint8_t *code = codes->planes + place / LANES * codes->n_bytes * LANES + place % LANES;
    double sum = entries[code[0]];
    for (Py_ssize_t i = 1; i < codes->n_bytes; i++) sum += entries[256 * i + code[LANES * i]];
    return (float)sum;
}

static void sink(float *heap, Py_ssize_t size, Py_ssize_t at) {
    float value = heap[at];
    for (Py_ssize_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= value) break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

/* Keep the `most` least values; true when the heap is full and its largest may have changed. */
static int keep_least(float *heap, Py_ssize_t *held, Py_ssize_t most, float value) {
    if (*held == most) {
        if (!(value < heap[0])) return 0;
        heap[0] = value;
        sink(heap, most, 0);
        return 1;
    }
    heap[(*held)++] = value;
    if (*held < most) return 0;
    for (Py_ssize_t at = most / 2; at-- > 0;) sink(heap, most, at);
    return 1;
}

/* More than the rounded sum of any code that costs no more than the k-th best so far. */
static double needed_limit(const Query *query) {
    double cost = ((double)query->best[0] + query->total) / 2 + ROUNDING * query->total;
    return cost / query->step + 1;
}

static void lower_limit(Query *query) {
    double steps = needed_limit(query);
    if (steps < query->limit) query->limit = (uint8_t)(steps > 0 ? steps : 0);
}

/* Forget candidates that the k-th best has overtaken. */
static void compact(Query *query) {
    if (query->held < query->k) return;
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < query->found; i++) {
        if (query->scores[i] > query->best[0]) continue;
        query->scores[kept] = query->scores[i];
        query->places[kept++] = query->places[i];
    }
    query->found = kept;
}

static void candidate(const Codes *codes, Query *query, Py_ssize_t place) {
    if (place >= codes->count || query->failed) return;
    float value = score(codes, query->entries, place);
    if (query->held == query->k && value > query->best[0]) return;
    if (query->found == query->room) {
        compact(query);
        /* Thousands of equal scores: no use in compacting for every one of them. */
        if (query->found > query->room - query->room / 4) {
            query->failed = 1;
            return;
        }
    }
    query->places[query->found] = place;
    query->scores[query->found++] = value;
    if (keep_least(query->best, &query->held, query->k, value)) lower_limit(query);
}

/* A step in which the k best codes are likely to fit, from the costs of a sample of the codes. */
static double choose_step(const Codes *sample, Query *query, double expected, double widen) {
    Py_ssize_t rank = (Py_ssize_t)(expected + 4 * sqrt(expected) + 4), held = 0;
    if (rank > sample->count) rank = sample->count;
    float *least = malloc(rank * sizeof *least);
    if (!least) return 0;
    for (Py_ssize_t i = 0; i < sample->count; i++) keep_least(least, &held, rank, score(sample, query->entries, i));
    double cost = widen * ((double)least[0] + query->total) / 2;
    free(least);
    double smallest = 4 * ROUNDING * query->total;
    return cost / STEPS > smallest ? cost / STEPS : smallest;
}

static void round_costs(const float *q, Py_ssize_t n_nibbles, double step, uint8_t *rounded) {
    for (Py_ssize_t nibble = 0; nibble < n_nibbles; nibble++, q += 4, rounded += LANES) {
        for (int value = 0; value < 16; value++) {
            double cost = 0;
            for (int bit = 0; bit < 4; bit++)
                if ((q[bit] > 0) != (value >> bit & 1)) cost += fabs((double)q[bit]);
            cost /= step;
            rounded[value] = rounded[value + 16] = cost < FULL ? (uint8_t)cost : FULL;
        }
    }
}

__attribute__((target("avx2"), always_inline)) static inline void
scan_tile(const Codes *codes, Query *queries, const int n, Py_ssize_t begin, Py_ssize_t end) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i limit[TOGETHER], sum[TOGETHER], below[TOGETHER];
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) limit[j] = _mm256_set1_epi8((char)queries[j].limit);
    for (Py_ssize_t block = begin; block < end; block++) {
        const uint8_t *plane = codes->planes + block * codes->n_bytes * LANES;
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) sum[j] = _mm256_setzero_si256();
        for (Py_ssize_t i = 0; i < codes->n_bytes; i++) {
            __m256i bytes = _mm256_loadu_si256((const __m256i *)(plane + LANES * i));
            __m256i right = _mm256_and_si256(bytes, low);
            __m256i left = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
#pragma GCC unroll 4
            for (int j = 0; j < n; j++) {
                const __m256i *table = (const __m256i *)(queries[j].rounded + 2 * LANES * i);
                sum[j] = _mm256_adds_epu8(sum[j], _mm256_shuffle_epi8(_mm256_loadu_si256(table), right));
                sum[j] = _mm256_adds_epu8(sum[j], _mm256_shuffle_epi8(_mm256_loadu_si256(table + 1), left));
            }
        }
        __m256i any = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            below[j] = _mm256_cmpeq_epi8(_mm256_min_epu8(sum[j], limit[j]), sum[j]);
            any = _mm256_or_si256(any, below[j]);
        }
        if (_mm256_testz_si256(any, any)) continue;
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            for (uint32_t lanes = (uint32_t)_mm256_movemask_epi8(below[j]); lanes; lanes &= lanes - 1)
                candidate(codes, queries + j, block * LANES + __builtin_ctz(lanes));
            limit[j] = _mm256_set1_epi8((char)queries[j].limit);
        }
    }
}

__attribute__((target("avx2"))) static void scan(const Codes *codes, Query *queries, Py_ssize_t n_queries) {
    Py_ssize_t blocks = (codes->count + LANES - 1) / LANES;
    for (Py_ssize_t begin = 0; begin < blocks; begin += TILE) {
        Py_ssize_t end = begin + TILE < blocks ? begin + TILE : blocks, q = 0;
        for (; q + TOGETHER <= n_queries; q += TOGETHER) scan_tile(codes, queries + q, TOGETHER, begin, end);
        for (; q < n_queries; q++) scan_tile(codes, queries + q, 1, begin, end);
    }
}
#endif

PyDoc_STRVAR(nearest_doc,
"nearest(planes, count, sample, queries, entries, k, widen, places, scores, found)\n\n"
"The codes of the k least scores, with all that tie with the last, in no order; buffers are C-contiguous:\n"
"planes and sample uint8 (blocks, bytes, 32), queries float32 (n, 8 bytes), entries float64 (n, bytes, 256); written:\n"
"places int64 (n, room), scores float32 (n, room), found int64 (n,), -1 where the scan cannot tell.");

static PyObject *nearest(PyObject *self, PyObject *args) {
#if HAVE_SCAN
    Py_buffer planes, some, asked, entries, places, scores, found;
    Py_ssize_t count, k;
    double widen;
    if (!PyArg_ParseTuple(args, "y*ny*y*y*ndw*w*w*", &planes, &count, &some, &asked, &entries, &k, &widen, &places, &scores,
                          &found))
        return NULL;
    Py_ssize_t n = found.len / (Py_ssize_t)sizeof(int64_t), blocks = (count + LANES - 1) / LANES;
    Py_ssize_t n_bytes = blocks > 0 ? planes.len / blocks / LANES : 0;
    Py_ssize_t room = n > 0 ? scores.len / n / (Py_ssize_t)sizeof(float) : 0;
    int sound = n > 0 && n_bytes > 0 && 0 < k && k <= count && 4 * (k + 1) <= 3 * room &&
                planes.len == blocks * n_bytes * LANES && some.len > 0 && some.len % (n_bytes * LANES) == 0 &&
                asked.len == n * n_bytes * 8 * (Py_ssize_t)sizeof(float) &&
                entries.len == n * n_bytes * 256 * (Py_ssize_t)sizeof(double) &&
                scores.len == n * room * (Py_ssize_t)sizeof(float) &&
                places.len == n * room * (Py_ssize_t)sizeof(int64_t);
    Query *queries = sound ? calloc(n, sizeof *queries) : NULL;
    uint8_t *rounded = sound ? malloc(n * n_bytes * 2 * LANES) : NULL;
    float *best = sound ? malloc(n * k * sizeof *best) : NULL;
    int ready = queries && rounded && best;
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        Codes codes = {planes.buf, count, n_bytes}, sample = {some.buf, some.len / n_bytes, n_bytes};
        for (Py_ssize_t i = 0; i < n; i++) {
            Query *query = queries + i;
            const float *q = (const float *)asked.buf + i * n_bytes * 8;
            query->entries = (const double *)entries.buf + i * n_bytes * 256;
            query->rounded = rounded + i * n_bytes * 2 * LANES;
            query->best = best + i * k;
            query->places = (int64_t *)places.buf + i * room;
            query->scores = (float *)scores.buf + i * room;
            query->k = k;
            query->room = room;
            for (Py_ssize_t bit = 0; bit < 8 * n_bytes; bit++) query->total += fabs((double)q[bit]);
            query->limit = FULL - 1;
            query->step = choose_step(&sample, query, (double)k * sample.count / count, widen);
            query->failed = !(query->step > 0 && query->step < HUGE_VAL);
            round_costs(q, 2 * n_bytes, query->failed ? 1 : query->step, rounded + i * n_bytes * 2 * LANES);
        }
        scan(&codes, queries, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            compact(queries + i);
            /* Sums of 255 were never looked at, so they must be beyond the k-th best. */
            int complete = !queries[i].failed && queries[i].held == k && needed_limit(queries + i) <= FULL;
            ((int64_t *)found.buf)[i] = complete ? queries[i].found : -1;
        }
        Py_END_ALLOW_THREADS
    }
    free(queries);
    free(rounded);
    free(best);
    PyBuffer_Release(&planes);
    PyBuffer_Release(&some);
    PyBuffer_Release(&asked);
    PyBuffer_Release(&entries);
    PyBuffer_Release(&places);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&found);
    if (!sound) return PyErr_Format(PyExc_ValueError, "The buffers do not fit each other.");
    if (!ready) return PyErr_NoMemory();
    Py_RETURN_NONE;
#else
    return PyErr_Format(PyExc_RuntimeError, "This build cannot scan.");
#endif
}

PyDoc_STRVAR(usable_doc, "usable()\n\nWhether this machine has the instructions that the scan is written in (AVX2).");

static PyObject *usable(PyObject *self, PyObject *args) {
#if HAVE_SCAN
    return PyBool_FromLong(__builtin_cpu_supports("avx2") != 0);
#else
    Py_RETURN_FALSE;
#endif
}

static PyMethodDef methods[] = {
    {"nearest", nearest, METH_VARARGS, nearest_doc},
    {"usable", usable, METH_NOARGS, usable_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_nibbles", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__nibbles(void) { return PyModuleDef_Init(&module); }
